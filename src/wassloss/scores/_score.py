"""The decorator that turns a function into a score: it reads inputs, averages, converts back."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, cast

import torch
from torch import Tensor

from wassloss._checks import check_choice
from wassloss.ground.matrix import as_ground_metric
from wassloss.scores import _inputs as inputs
from wassloss.scores._inputs import AnyTarget, Numbers

# The argument of a score, usually Numbers; its function receives a checked tensor instead.
Predictions: TypeAlias = Any
Weights: TypeAlias = Any  # likewise, or None

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Mean(TypedDict, total=False):
    """How examples are averaged; see :mod:`wassloss.scores`."""

    sample_weight: Numbers | None
    reduction: Literal["mean", "none"]


class Score:
    """Turns a function of predictions and a target into a score, and records its properties.

    The name of the function's first parameter, ``scores`` or ``probabilities``, decides how
    predictions are read. The function receives a checked tensor, and a ``metric`` as a ground
    metric. It returns a value for each example, `(batch, …)`; the score is their weighted mean.

    If the function declares ``sample_weight``, it receives the checked weights and returns values
    with their weights or, if there is an `answer`, sums over examples, `(n,)`, from which `answer`
    computes the score. Sums add up over batches and processes. A score that `ranks` depends on more
    than the first guess.

    Type checkers see the function's own signature, with ``**mean: Unpack[Mean]``; at run time it
    has the two keywords instead, and the docstring says whether larger is better.
    """

    def __init__(
        self,
        *,
        larger_is_better: bool,
        ranks: bool = False,
        answer: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.larger_is_better, self.ranks, self.answer = larger_is_better, ranks, answer

    def __call__(self, function: _Function) -> _Function:
        own = inspect.signature(function)
        parameters = dict(own.parameters)
        self.weighs, self.takes_metric = "sample_weight" in parameters, "metric" in parameters
        self.predictions = next(iter(parameters))
        if parameters.pop("mean", None):
            for name, default in (("sample_weight", None), ("reduction", "mean")):
                kind = inspect.Parameter.KEYWORD_ONLY
                parameters[name] = inspect.Parameter(name, kind, default=default)
        self.function: Callable[..., Any] = function
        self.signature = own.replace(parameters=list(parameters.values()))

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            return self.of(**self.named(*arguments, **keywords))

        summary, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\n")
        better = "Larger" if self.larger_is_better else "Smaller"
        shared = "Arguments are as in :mod:`wassloss.scores`."
        call.__doc__ = f"{summary} {better} is better.\n\n{shared}\n{rest}"
        call.__signature__, call.made_of = self.signature, self  # type: ignore[attr-defined]
        return cast(_Function, call)

    def named(self, *arguments: Any, **keywords: Any) -> dict[str, Any]:
        """The arguments of the score by name, with defaults."""
        bound = self.signature.bind(*arguments, **keywords)
        bound.apply_defaults()
        return bound.arguments

    def judges_first_guess(self, **arguments: Any) -> bool:
        """Whether only the first guess counts, so that the score also applies to decisions."""
        one = not self.ranks and arguments.get("k", 1) == 1
        return self.predictions == "scores" and one

    @torch.no_grad()
    def found(
        self, given: Numbers, target: AnyTarget, sample_weight: Numbers | None = None, **own: Any
    ) -> Any:
        """Sums over examples; or, without an `answer`, values and their weights."""
        if self.takes_metric:
            own["metric"] = as_ground_metric(own["metric"])
        scored = self.predictions == "scores"
        read = inputs.read_scores if scored else inputs.read_probabilities
        x: Tensor = read(given, own.get("metric"))
        # Autocast would round products to half precision.
        with torch.autocast(x.device.type, enabled=False):
            if self.weighs:
                own["sample_weight"] = inputs.read_sample_weight(sample_weight, x)
                return self.function(x, target, **own)
            values = self.function(x, target, **own)
            return values, inputs.read_sample_weight(sample_weight, values)

    def of(self, *, reduction: str = "mean", **named: Any) -> Any:
        """Compute the score, in the same kind of array as the predictions."""
        given = named.pop(self.predictions)
        check_choice("reduction", reduction, ("mean", "none"))
        found = self.found(given, **named)
        if self.answer is not None:
            if not len(given):
                raise ValueError("scores must hold at least one example, got 0 examples")
            return inputs.given_back(self.answer(found), given)
        values, weight = found
        if reduction == "none":
            return inputs.given_back(values, given)
        total = weight.sum()
        if not total > 0:
            raise ValueError(
                "scores must hold an example with a positive weight and a defined score, got "
                f"{len(given)} examples of total weight {float(total):g}"
            )
        share = (weight / total).reshape(-1, *(1,) * (values.dim() - 1))
        return inputs.given_back((share * counted(values, weight)).sum(0), given)


def score_of(function: Callable[..., Any]) -> Score:
    """The `Score` of a function; raises if it is not a score."""
    made = getattr(function, "made_of", None)
    if isinstance(made, Score):
        return made
    given = getattr(function, "__name__", repr(function))
    raise ValueError(f"function must be a score of wassloss.scores, got {given}")


def counted(values: Tensor, weight: Tensor) -> Tensor:
    """Values `(batch, …)`, with 0 for examples of weight 0, whose values may be undefined."""
    counts = (weight > 0).reshape(-1, *(1,) * (values.dim() - 1))
    return values.where(counts, 0.0)
