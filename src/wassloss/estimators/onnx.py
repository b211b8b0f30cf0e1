"""Models as ONNX files, which predict without torch or wassloss."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from wassloss import __version__
from wassloss._files import write_file
from wassloss.estimators.classifier import WassersteinClassifier
from wassloss.models import MLP, LinearSoftmax

_OPSET, _IR = 17, 8  # ONNX 1.12, which every runtime of the last years reads
_MOST_LABELS = 4096  # whose table of costs, of 128 MB, goes into the file


def export_onnx(model: WassersteinClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier, such as one of `wl.load`, as an ONNX file (`wassloss[onnx]`).

    The graph takes ``features`` `(n, d)` in double precision, as `predict` does, and standardises
    them itself. It returns ``probabilities`` `(n, labels)` and the indices `(n,)` of two decisions:
    ``label``, the most probable, and ``least_cost_label``, that of least expected cost (up to 4096
    labels). The file's metadata hold in JSON what the indices mean, ``labels``; ``feature_names``;
    the ``decision`` that `predict` takes; ``preprocessing``, how columns of a table become
    features, for a model that was fitted to one; and wassloss's ``version``.

    Args:
        model: linear or a perceptron.
        path: of the file, written completely or not at all.

    Raises:
        ValueError: the model is of another kind, or not fitted.

    >>> import os, tempfile, numpy as np, onnx, wassloss as wl
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 2])
    >>> model = wl.WassersteinClassifier("ordinal").fit(X, y)
    >>> path = os.path.join(tempfile.mkdtemp(), "model.onnx")
    >>> wl.estimators.export_onnx(model, path)
    >>> [output.name for output in onnx.load(path).graph.output]
    ['probabilities', 'label', 'least_cost_label']
    """
    onnx = _import_onnx()
    if not isinstance(model, WassersteinClassifier):
        raise ValueError(
            f"model must be a fitted classifier to be exported, got a {type(model).__name__}"
        )
    check_is_fitted(model)
    table = getattr(model, "table_", None)
    names = model._columns_taken().names
    about = {
        "labels": model.classes_.tolist(),
        "feature_names": None if names is None else list(names),
        "decision": model.decision,
        "preprocessing": None if table is None else table.state(),
        "version": __version__,
    }
    made = onnx.helper.make_model(
        _graph(onnx, model),
        producer_name="wassloss",
        producer_version=__version__,
        opset_imports=[onnx.helper.make_opsetid("", _OPSET)],
        ir_version=_IR,
    )
    onnx.helper.set_model_props(made, {key: json.dumps(value) for key, value in about.items()})
    onnx.checker.check_model(made)
    write_file(path, made.SerializeToString())


def _graph(onnx: Any, model: WassersteinClassifier) -> Any:
    """From features to decisions, with labels in the order of `classes_`."""
    helper, kinds = onnx.helper, onnx.TensorProto
    layers, places, metric = _layers(model.model_), model._labels.places, model.metric_
    dtype = layers[0].weight.dtype
    kind = kinds.DOUBLE if dtype == torch.float64 else kinds.FLOAT
    nodes, constants = list[Any](), list[Any]()

    def add(operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        name = name or f"{operator.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(name: str, values: NDArray[Any]) -> str:
        constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    x, scaler = "features", model.scaler_
    if scaler is not None:
        x = add("Sub", x, constant("mean", scaler.mean_))
        x = add("Div", x, constant("scale", scaler.scale_))
    x = add("Cast", x, to=kind)
    for i, layer in enumerate(layers):
        last = i + 1 == len(layers)
        order = places if last else slice(None)
        weights = [_array(part)[order] for part in (layer.weight, layer.bias)]
        both = [constant(f"{n}_{i}", w) for n, w in zip("Wb", weights, strict=True)]
        x = add("Gemm", x, *both, transB=1)
        x = x if last else add("Relu", x)
    p = add("Softmax", x, name="probabilities", axis=1)
    add("ArgMax", x, name="label", axis=1, keepdims=0)
    outputs = {p: (kind, ["n", metric.size]), "label": (kinds.INT64, ["n"])}
    if metric.size <= _MOST_LABELS:
        cost = _array(metric.cost().to(dtype))[places][:, places]
        expected = add("MatMul", p, constant("cost", cost.T))
        add("ArgMin", expected, name="least_cost_label", axis=1, keepdims=0)
        outputs["least_cost_label"] = (kinds.INT64, ["n"])
    given = helper.make_tensor_value_info("features", kinds.DOUBLE, ["n", model.n_features_in_])
    made = [helper.make_tensor_value_info(name, *about) for name, about in outputs.items()]
    return helper.make_graph(nodes, "wassloss", [given], made, constants)


def _layers(model: nn.Module) -> list[nn.Linear]:
    if isinstance(model, LinearSoftmax):
        return [model.linear]
    if isinstance(model, MLP):
        return [layer for layer in model.layers if isinstance(layer, nn.Linear)]
    raise ValueError(
        f"model must be LinearSoftmax or MLP inside to be exported, got {type(model).__name__}"
    )


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array


def _import_onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise ImportError('export needs onnx: pip install "wassloss[onnx]"') from error
    return onnx
