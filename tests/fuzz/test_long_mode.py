"""The long mode of `python -m tests.fuzz` passes, is reproducible, and finds errors."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import wassloss as wl
from tests.fuzz.__main__ import main
from tests.fuzz.long.answers import answer
from tests.fuzz.long.campaign import run, run_batch, table
from tests.fuzz.long.compare import costs_of, precision_of, problem
from tests.fuzz.long.draws import Drawn
from tests.fuzz.long.entropic import Problem, solve
from tests.fuzz.long.kinds import KINDS
from tests.fuzz.long.loss_check import KLTerm, check_loss
from tests.fuzz.long.notes import noted
from tests.fuzz.long.ways import Outcome, WrongAnswerError
from tests.losses import per_example
from tests.sampling import one_in
from wassloss import native
from wassloss.transport import Newton

SEED = 0
BATCHES = 12  # within which an error is found; usually in the first


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_batches_of_each_kind(kind: str) -> None:
    for batch in range(BATCHES):
        tally, failure = run_batch(kind, SEED, batch)
        assert failure is None, failure
        assert tally.calls >= tally.refused + tally.doubtful


def test_a_batch_can_be_repeated() -> None:
    asked = []
    for seed in (3, 3, 4):
        run_batch("relaxed", seed, 7)
        asked.append(noted())
    assert asked[0] == asked[1] != asked[2]


def test_a_campaign_gives_each_kind_its_share() -> None:
    kinds = ["nearest", "scores", "decisions"]
    records = run(calls=6000, seconds=600, seed=SEED, kinds=kinds)
    counts = [record.tally.calls for record in records.values()]
    assert sum(counts) >= 6000
    assert min(counts) >= 1000
    assert table(records).count("\n") == 1 + len(kinds) + 1


def test_a_campaign_ends_when_time_is_up() -> None:
    records = run(calls=10**9, seconds=0.0, seed=SEED, kinds=["nearest"])
    assert records["nearest"].batches <= 1


def test_the_reference_refuses_costs_without_end() -> None:
    """Otherwise a campaign of an hour would wait forever."""
    masses = np.log(np.full((1, 2), 0.5))
    with pytest.raises(ValueError, match="costs and strengths must be finite"):
        solve(Problem(masses, masses, np.array([[0.0, np.inf], [np.inf, 0.0]]), 0.1))


def gradient_check(gradient: list[float], kl_slope: list[float]) -> None:
    """Check a gradient in half precision without transport, with a KL term of this slope."""
    metric = wl.ground.Discrete(2)
    log_h, y, precision = np.log([[0.5, 0.5]]), np.array([[0.5, 0.5]]), precision_of(torch.float16)
    a = answer(problem(log_h, y, costs_of(metric), 1.0, precision))
    kl = KLTerm(1e6, np.zeros(1), np.full(1, 1e6), np.array([kl_slope]))
    found = Outcome((torch.from_numpy(0.5 * (a.low + a.high)), torch.tensor([gradient])))
    drawn = Drawn(metric, lambda: 1 - np.eye(2))
    check_loss({"half": found}, torch.ones(1), a, kl, precision, drawn, balanced=True)


def test_a_gradient_may_be_infinite_where_half_precision_does_not_hold_it() -> None:
    gradient_check([math.inf, -math.inf], [1e5, -1e5])
    gradient_check([6e4, -math.inf], [6e4, -1e5])
    for wrong in ([math.inf, math.inf], [math.nan, -math.inf], [1e3, -math.inf]):
        with pytest.raises(WrongAnswerError, match="gradient wrong"):
            gradient_check(wrong, [1e5, -1e5])
    with pytest.raises(WrongAnswerError, match="gradient wrong"):
        gradient_check([math.inf, -math.inf], [3e4, -3e4])


def test_a_failure_names_the_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--calls", "50", "--kind", "nearest", "--seed", "5"]) == 0
    monkeypatch.setattr(wl.NearestWassersteinLoss, "forward", off(wl.NearestWassersteinLoss))
    assert main(["--calls", "50", "--kind", "nearest", "--seed", "5"]) == 1
    printed = capsys.readouterr().out
    assert "FAILED nearest, batch 0, example" in printed
    command = printed.split("python -m tests.fuzz ")[1].split("\n")[0]
    assert main(command.split()) == 1
    monkeypatch.undo()
    assert main(command.split()) == 0


# Deliberate mistakes


def off(loss: Any) -> Callable[..., Tensor]:
    """A `forward` that is wrong by a factor of 1.001."""
    right = loss.forward

    def forward(self: Any, *given: Any) -> Tensor:
        return right(self, *given) * 1.001

    return forward


def flipped(loss: Any) -> Callable[..., Tensor]:
    """A `forward` with the right value and a gradient of the wrong sign."""
    right = loss.forward

    def forward(self: Any, logits: Tensor, *given: Any) -> Tensor:
        value = right(self, logits, *given)
        return 2 * value.detach() - value

    return forward


def steeper(loss: Any) -> Callable[..., Tensor]:
    """A `forward` whose gradient is 1 % too large."""
    right = loss.forward

    def forward(self: Any, logits: Tensor, *given: Any) -> Tensor:
        value = right(self, logits, *given)
        return value + 0.01 * (value - value.detach())

    return forward


def on_average(loss: Any) -> Callable[..., Tensor]:
    """A `forward` that ignores the sample weights."""
    right = loss.forward

    def forward(self: Any, logits: Tensor, target: Any, sample_weight: Any = None) -> Tensor:
        return right(self, logits, target)

    return forward


def reads_rows(loss: Any) -> Callable[..., Tensor]:
    """A `forward` that assumes contiguous batches."""
    right = loss.forward

    def forward(self: Any, logits: Tensor, *given: Any) -> Tensor:
        whole = logits.untyped_storage().nbytes() >= logits.numel() * logits.element_size()
        rows = logits.as_strided(logits.shape, (logits.shape[1], 1)) if whole else logits
        return right(self, rows, *given)

    return forward


def narrow(loss: Any) -> Callable[..., Tensor]:
    """A `forward` that rounds to the default dtype."""
    right = loss.forward

    def forward(self: Any, logits: Tensor, *given: Any) -> Tensor:
        rounded = logits.to(torch.get_default_dtype()).to(logits.dtype)
        return right(self, rounded if torch.get_default_dtype().itemsize < 4 else logits, *given)

    return forward


def solve_off(solver: Any) -> Callable[..., Any]:
    right = solver.solve

    def solve(self: Any, *given: Any, **keywords: Any) -> Any:
        solution = right(self, *given, **keywords)
        return replace(solution, value=solution.value * 1.001)

    return solve


def scaled(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **keywords: function(*given, **keywords) * 1.001


def rolled(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **keywords: function(*given, **keywords).roll(1, 0)


def cryptic(*given: Any, **keywords: Any) -> Any:
    return torch.zeros(2) + torch.zeros(3)


transposed_plan = wl.Solution.plan
MISTAKES: dict[str, tuple[str, Any, str, Any]] = {
    "value": ("balanced", wl.WassersteinLoss, "forward", off(wl.WassersteinLoss)),
    "gradient": ("balanced", wl.WassersteinLoss, "forward", flipped(wl.WassersteinLoss)),
    "slope": ("balanced", wl.WassersteinLoss, "forward", steeper(wl.WassersteinLoss)),
    "exact value": ("exact", wl.WassersteinLoss, "forward", off(wl.WassersteinLoss)),
    "exact gradient": ("exact", wl.WassersteinLoss, "forward", flipped(wl.WassersteinLoss)),
    "layout": ("balanced", wl.WassersteinLoss, "forward", reads_rows(wl.WassersteinLoss)),
    "default dtype": ("balanced", wl.WassersteinLoss, "forward", narrow(wl.WassersteinLoss)),
    "function": (
        "balanced",
        per_example,
        "wasserstein_loss",
        scaled(per_example.wasserstein_loss),
    ),
    "debiased value": ("debiased", wl.WassersteinLoss, "forward", off(wl.WassersteinLoss)),
    "iterations": ("iterations", wl.WassersteinLoss, "forward", off(wl.WassersteinLoss)),
    "relaxed value": (
        "relaxed",
        wl.RelaxedWassersteinLoss,
        "forward",
        off(wl.RelaxedWassersteinLoss),
    ),
    "relaxed gradient": (
        "relaxed",
        wl.RelaxedWassersteinLoss,
        "forward",
        flipped(wl.RelaxedWassersteinLoss),
    ),
    "relaxed slope": (
        "relaxed",
        wl.RelaxedWassersteinLoss,
        "forward",
        steeper(wl.RelaxedWassersteinLoss),
    ),
    "one-sided gradient": (
        "one-sided",
        wl.RelaxedWassersteinLoss,
        "forward",
        flipped(wl.RelaxedWassersteinLoss),
    ),
    "nearest gradient": (
        "nearest",
        wl.NearestWassersteinLoss,
        "forward",
        flipped(wl.NearestWassersteinLoss),
    ),
    "one of two ways": ("relaxed", Newton, "solve", solve_off(Newton)),
    "distance": ("distances", wl, "wasserstein", scaled(wl.wasserstein)),
    "plan transposed": ("plans", wl.Solution, "plan", lambda self: transposed_plan(self).mT),
    "weights forgotten": (
        "reductions",
        wl.WassersteinLoss,
        "forward",
        on_average(wl.WassersteinLoss),
    ),
    "columns": (
        "metrics",
        wl.ground.GroundMetric,
        "cost_columns",
        scaled(wl.ground.GroundMetric.cost_columns),
    ),
    "score": ("scores", wl.scores, "top_k_cost", scaled(wl.scores.top_k_cost)),
    "decision": (
        "decisions",
        wl.decisions,
        "least_cost_label",
        rolled(wl.decisions.least_cost_label),
    ),
    "error of another's": ("senseless", wl, "wasserstein", cryptic),
}


@pytest.mark.parametrize("mistake", one_in(3, MISTAKES))
def test_a_mistake_is_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, place, name, wrong = MISTAKES[mistake]
    if mistake == "one of two ways" and not native.available():
        pytest.skip("needs the compiled core")
    monkeypatch.setattr(place, name, wrong)
    noticed = [run_batch(kind, SEED, batch)[1] for batch in range(BATCHES)]
    assert any(failure is not None for failure in noticed)
