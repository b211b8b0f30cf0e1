"""Type checkers accept the documented keywords."""

import importlib.util
import inspect
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, get_type_hints

import numpy as np
import pytest

import wassloss as wl
from wassloss import losses, scores
from wassloss.losses import baselines, spec
from wassloss.scores import cost

MODULES: list[ModuleType] = [wl, losses, baselines, scores]
if importlib.util.find_spec("torchmetrics") is not None:
    from wassloss.scores import accumulators

    MODULES.append(accumulators)


def public() -> dict[str, Callable[..., Any]]:
    """Public functions and constructors, by name."""
    return {
        f"{module.__name__}.{name}": value
        for module in MODULES
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or (inspect.isclass(value) and "__init__" in vars(value)))
        and value.__module__.startswith("wassloss.")
    }


def typed_keywords(function: Callable[..., Any]) -> set[str] | None:
    """The keywords that a type checker accepts; None if others are not typed by name."""
    parameters = inspect.signature(function).parameters.values()
    names = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
    rest = [p for p in parameters if p.kind is p.VAR_KEYWORD]
    if not rest:
        return names
    unpacked = re.fullmatch(r"Unpack\[(\w+)\]", str(rest[0].annotation))
    if unpacked is None:
        return None
    keywords = getattr(spec, unpacked[1], None) or vars(cost)[unpacked[1]]
    return names | set(keywords.__annotations__)


def documented_keywords(function: Callable[..., Any]) -> set[str]:
    """Those of the docstring's `**keywords` entry; all of the module's table if it refers to it."""
    text = inspect.getdoc(function) or ""
    entry = re.search(r"\*\*keywords:(.*?)(\n\n|\n\S|\n    \S|$)", text, re.DOTALL)
    if entry is None:
        return set()
    named = set(re.findall(r"`(\w+)`", entry[1]))
    return named | (set(get_type_hints(spec.TransportKeywords)) if "others" in entry[1] else set())


@pytest.mark.parametrize("name", sorted(public()))
def test_documented_keywords_are_typed(name: str) -> None:
    function = public()[name]
    typed = typed_keywords(function)
    assert typed is None or documented_keywords(function) <= typed


def test_a_score_takes_epsilon() -> None:
    h, y = np.array([[0.5, 0.5, 0.0]]), np.array([[0.5, 0.5, 0.0]])
    metric = wl.ground.Ordinal(3)
    assert scores.mean_wasserstein(h, y, metric, epsilon=0.5) != 0
    assert scores.mean_wasserstein(h, y, metric) == 0


@pytest.mark.parametrize("name", sorted(public()))
def test_what_takes_a_metric_takes_a_matrix_of_either_kind(name: str) -> None:
    function = public()[name]
    documented = "matrix of distances" in (inspect.getdoc(function) or "")
    if documented and (parameter := inspect.signature(function).parameters.get("metric")):
        assert re.search(r"NDArray|Metric$|Numbers", str(parameter.annotation)), parameter
        assert re.search(r"Tensor|Metric$", str(parameter.annotation)), parameter
