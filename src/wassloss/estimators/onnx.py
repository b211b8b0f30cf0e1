"""Models as ONNX files, which predict without torch or wassloss."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
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


def export_onnx(
    model: WassersteinClassifier,
    path: str | os.PathLike[str],
    *,
    feature_names: Sequence[str] | None = None,
    preprocessing: Any = None,
) -> None:
    """Write a fitted classifier, such as one of `wl.load`, as an ONNX file (`wassloss[onnx]`).

    The graph takes ``features`` `(n, d)` in double precision, as `predict` does, and standardises
    them itself. It returns ``probabilities`` `(n, labels)` and the indices `(n,)` of two decisions:
    ``label``, the most probable, and ``least_cost_label``, that of least expected cost (up to 4096
    labels). The file's metadata hold in JSON what the indices mean, ``labels``; ``feature_names``;
    the ``decision`` that `predict` takes; ``preprocessing``; and wassloss's ``version``.

    Args:
        model: linear or a perceptron.
        path: of the file, written completely or not at all.
        feature_names: by default those that the model was trained on, if it knows them.
        preprocessing: whatever JSON can hold about how features are made; a classifier that was
            fitted to a table says so itself.

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
    names = model._columns_taken().names if feature_names is None else feature_names
    about = {
        "labels": model.classes_.tolist(),
        "feature_names": None if names is None else list(names),
        "decision": model.decision,
        "preprocessing": preprocessing if table is None else table.state(),
        "version": __version__,
    }
    made = onnx.helper.make_model(
        _Graph(onnx).of(model),
        producer_name="wassloss",
        producer_version=__version__,
        opset_imports=[onnx.helper.make_opsetid("", _OPSET)],
        ir_version=_IR,
    )
    onnx.helper.set_model_props(made, {key: json.dumps(value) for key, value in about.items()})
    onnx.checker.check_model(made)
    write_file(path, made.SerializeToString())


class _Graph:
    """Nodes one after another."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def of(self, model: WassersteinClassifier) -> Any:
        """From features to decisions, with labels in the order of `classes_`."""
        helper, kinds = self.onnx.helper, self.onnx.TensorProto
        layers, places, metric = _layers(model.model_), model._labels.places, model.metric_
        dtype = layers[0].weight.dtype
        kind = kinds.DOUBLE if dtype == torch.float64 else kinds.FLOAT
        x, scaler = "features", model.scaler_
        if scaler is not None:
            x = self.add("Sub", x, self.constant("mean", scaler.mean_))
            x = self.add("Div", x, self.constant("scale", scaler.scale_))
        x = self.add("Cast", x, to=kind)
        for i, layer in enumerate(layers):
            last = i + 1 == len(layers)
            order = places if last else slice(None)
            bias = layer.bias if layer.bias is not None else torch.zeros(len(layer.weight))
            weights = [_array(part.to(dtype))[order] for part in (layer.weight, bias)]
            both = [self.constant(f"{n}_{i}", w) for n, w in zip("Wb", weights, strict=True)]
            x = self.add("Gemm", x, *both, transB=1)
            x = x if last else self.add("Relu", x)
        p = self.add("Softmax", x, name="probabilities", axis=1)
        self.add("ArgMax", x, name="label", axis=1, keepdims=0)
        rows = "n"
        outputs = [
            helper.make_tensor_value_info(p, kind, [rows, metric.size]),
            helper.make_tensor_value_info("label", kinds.INT64, [rows]),
        ]
        if metric.size <= _MOST_LABELS:
            cost = _array(metric.cost().to(dtype))[places][:, places]
            expected = self.add("MatMul", p, self.constant("cost", cost.T))
            self.add("ArgMin", expected, name="least_cost_label", axis=1, keepdims=0)
            outputs.append(helper.make_tensor_value_info("least_cost_label", kinds.INT64, [rows]))
        given = helper.make_tensor_value_info(
            "features", kinds.DOUBLE, [rows, model.n_features_in_]
        )
        return helper.make_graph(self.nodes, "wassloss", [given], outputs, self.constants)

    def add(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """A node; returns the name of its output."""
        name = name or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """A constant; returns its name."""
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name


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
