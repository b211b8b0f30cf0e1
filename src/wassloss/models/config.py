"""Models from their descriptions, which checkpoints and exports hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from wassloss.models.linear import LinearSoftmax
from wassloss.models.measure import MeasureModel
from wassloss.models.mlp import MLP

_KINDS: dict[str, type[nn.Module]] = {
    kind.__name__: kind for kind in (LinearSoftmax, MLP, MeasureModel)
}


def build(config: Mapping[str, Any]) -> nn.Module:
    """The model that a description, made by its `config()`, is of; with weights of its own.

    Raises:
        ValueError: the kind is unknown, or its arguments are wrong.
    """
    arguments = dict(config)
    kind = arguments.pop("kind", None)
    if kind not in _KINDS:
        raise ValueError(f"config must have a kind out of {', '.join(_KINDS)}, got {kind!r}")
    try:
        return _KINDS[kind](**arguments)
    except TypeError as error:
        raise ValueError(f"config does not describe a {kind}: {error}") from error
