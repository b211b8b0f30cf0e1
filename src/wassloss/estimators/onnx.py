"""Export models to ONNX files, which predict without torch or wassloss."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from wassloss import __version__
from wassloss.estimators.classifier import WassersteinClassifier
from wassloss.files import write_file

_OPSET, _IR = 17, 8  # ONNX 1.12 (2022), supported by all current runtimes
_MOST_LABELS = 4096  # a table of 128 MB in the file


def export_onnx(model: WassersteinClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier to an ONNX file (requires `wassloss[onnx]`).

    The graph takes unstandardised ``features`` `(n, d)` in double precision, as `predict` does. It
    returns ``probabilities`` `(n, labels)` and ``label`` `(n,)`, the index of the predicted class.
    The file's metadata hold ``labels``, the class of each index, and ``feature_names``, as JSON.

    Args:
        model: a fitted classifier, such as `wl.load` returns.
        path: path of the file, which is written atomically.

    Raises:
        ValueError: if the model is of another kind, is not fitted, or decides by least cost among
            more than 4096 labels.

    >>> import os, tempfile, numpy as np, onnx, wassloss as wl
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 2])
    >>> model = wl.WassersteinClassifier("ordinal").fit(X, y)
    >>> path = os.path.join(tempfile.mkdtemp(), "model.onnx")
    >>> wl.estimators.export_onnx(model, path)
    >>> [output.name for output in onnx.load(path).graph.output]
    ['probabilities', 'label']
    """
    try:
        import onnx
    except ImportError as error:
        raise ImportError('export needs onnx: pip install "wassloss[onnx]"') from error
    if not isinstance(model, WassersteinClassifier):
        raise ValueError(
            f"model must be a fitted classifier to be exported, got a {type(model).__name__}"
        )
    check_is_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    about = {
        "labels": model.classes_.tolist(),
        "feature_names": None if names is None else names.tolist(),
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


@torch.no_grad()
def _graph(onnx: Any, model: WassersteinClassifier) -> Any:
    """The graph from features to a decision, with labels in the order of `classes_`."""
    typed, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
    places, scaler = model._labels.places, model.scaler_
    layers = [layer for layer in model.model_.modules() if isinstance(layer, nn.Linear)]
    dtype = layers[0].weight.dtype
    kind = kinds.DOUBLE if dtype == torch.float64 else kinds.FLOAT
    nodes, constants = list[Any](), list[Any]()

    def add(operator: str, x: str, *parts: Any, name: str = "", **attributes: Any) -> str:
        """Apply an operator to the value named `x` and to arrays; return the result's name."""
        for part in parts:
            array = np.ascontiguousarray(part)
            constants.append(onnx.numpy_helper.from_array(array, f"constant_{len(constants)}"))
        name = name or f"{operator.lower()}_{len(nodes)}"
        inputs = [x, *(each.name for each in constants[len(constants) - len(parts) :])]
        nodes.append(onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    x = "features"
    if scaler is not None:
        x = add("Div", add("Sub", x, scaler.mean_), scaler.scale_)
    x = add("Cast", x, to=kind)
    for layer in layers[:-1]:
        x = add("Relu", add("Gemm", x, layer.weight.cpu(), layer.bias.cpu(), transB=1))
    last = layers[-1]
    bias = [] if last.bias is None else [last.bias.cpu()[places]]
    x = add("Gemm", x, last.weight.cpu()[places], *bias, transB=1)
    p = add("Softmax", x, name="probabilities", axis=1)
    if model.decision == "probable":
        add("ArgMax", x, name="label", axis=1, keepdims=0)
    elif len(places) > _MOST_LABELS:
        raise ValueError(
            f"model must have at most {_MOST_LABELS} labels to export decision='least_cost', "
            f"got {len(places)}: set decision='probable'"
        )
    else:
        cost = model.metric_.cost().cpu().to(dtype)[places][:, places]
        add("ArgMin", add("MatMul", p, cost.T), name="label", axis=1, keepdims=0)
    given = [typed("features", kinds.DOUBLE, ["n", model.n_features_in_])]
    made = [typed(p, kind, ["n", len(places)]), typed("label", kinds.INT64, ["n"])]
    return onnx.helper.make_graph(nodes, "wassloss", given, made, constants)
