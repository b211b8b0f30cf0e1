"""The result does not depend on how the data are divided into batches and processes."""

import builtins
import copy
import importlib
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing
from torch import Tensor

import wassloss as wl
from tests.scores.cases import METRIC, K
from wassloss import decisions, scores

accumulators = pytest.importorskip("wassloss.scores.accumulators", reason="needs torchmetrics")
torchmetrics = pytest.importorskip("torchmetrics")

Pair = tuple[Callable[[], Any], Callable[..., Tensor]]


def pair(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Pair:
    return (
        lambda: accumulators.Accumulator(function, *arguments, **keywords),
        lambda x, y, **weight: function(x, y, *arguments, **keywords, **weight),
    )


def pairs() -> dict[str, Pair]:
    """Each accumulating score, and the function that it computes over all batches."""
    return {
        "top_k_cost": pair(scores.top_k_cost, METRIC, 2),
        "top_k_cost, several": pair(scores.top_k_cost, METRIC, [1, 3]),
        "distance_at_k": pair(scores.distance_at_k, METRIC),
        "mistake_severity": pair(scores.mistake_severity, METRIC),
        "mean_wasserstein": pair(scores.mean_wasserstein, METRIC, epsilon=0.1),
        "precision_at_k": pair(scores.precision_at_k, 2),
        "recall_at_k": pair(scores.recall_at_k, [1, 2]),
        "clark": pair(scores.clark),
        "average_mae": pair(scores.average_mae),
        "maximum_mae": pair(scores.maximum_mae),
        "quadratic_weighted_kappa": pair(scores.quadratic_weighted_kappa),
        "expected_calibration_error": pair(scores.expected_calibration_error, bins=4),
        "ranking_auc": pair(scores.ranking_auc),
    }


every_pair = pytest.mark.parametrize("name", pairs())


def data() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(23, K, generator=generator, dtype=torch.float64).softmax(1)
    y = (torch.rand(23, K, generator=generator) < 0.3).double()
    y[torch.arange(23), torch.randint(K, (23,), generator=generator)] = 1
    return x, y, torch.rand(23, generator=generator, dtype=torch.float64)


def expected(name: str) -> Tensor:
    x, y, weight = data()
    return pairs()[name][1](x, y, sample_weight=weight).double()


def fed(name: str, parts: list[Tensor]) -> Any:
    x, y, weight = data()
    score = pairs()[name][0]()
    for rows in parts:
        score.update(x[rows], y[rows], weight[rows])
    return score


@every_pair
@pytest.mark.parametrize("batches", [1, 2, 7])
def test_batches_add_up(name: str, batches: int) -> None:
    score = fed(name, list(torch.arange(23).chunk(batches)))
    torch.testing.assert_close(score.compute(), expected(name))
    score.reset()
    assert float(score.update_count) == 0
    x, y, _ = data()
    score.update(x[:5], y[:5])
    torch.testing.assert_close(score.compute(), pairs()[name][1](x[:5], y[:5]).double())


@every_pair
def test_forward_gives_the_batch_and_keeps_the_whole(name: str) -> None:
    x, y, weight = data()
    make, function = pairs()[name]
    score = make()
    for rows in torch.arange(23).chunk(2):
        batch = score(x[rows], y[rows], weight[rows])
        alone = function(x[rows], y[rows], sample_weight=weight[rows])
        torch.testing.assert_close(batch, alone.double())
    torch.testing.assert_close(score.compute(), expected(name))


@every_pair
def test_copies_are_their_own(name: str) -> None:
    score = fed(name, [torch.arange(10)])
    for other in (copy.deepcopy(score), score.clone(), pickle.loads(pickle.dumps(score))):
        x, y, weight = data()
        other.update(x[10:], y[10:], weight[10:])
        torch.testing.assert_close(other.compute(), expected(name))
    assert score.update_count == 1


def test_arguments_are_those_of_the_function() -> None:
    x, y, _ = data()
    score = accumulators.Accumulator(scores.top_k_cost, METRIC, k=2)
    score.update(x, y)
    torch.testing.assert_close(score.compute(), scores.top_k_cost(x, y, METRIC, 2))
    with pytest.raises(TypeError, match="unexpected keyword argument 'powr'"):
        accumulators.Accumulator(scores.precision_at_k, powr=1)
    for function in (scores.precision_at_k, scores.mean_wasserstein):
        with pytest.raises(TypeError, match="unexpected keyword argument 'reduction'"):
            accumulators.Accumulator(function, reduction="none")
    for function in (decisions.top_labels, max):
        with pytest.raises(ValueError, match="function must be a score"):
            accumulators.Accumulator(function)


@pytest.mark.filterwarnings("ignore:.*compute.*called before.*update:UserWarning")
@pytest.mark.parametrize("name", ["top_k_cost, several", "quadratic_weighted_kappa"])
def test_score_of_no_batches_is_nan(name: str) -> None:
    assert pairs()[name][0]().compute().isnan().all()


def test_class_ids_and_sparse_targets() -> None:
    x, _, _ = data()
    ids = torch.randint(K, (23,))
    score = accumulators.Accumulator(scores.top_k_cost, METRIC, 2)
    score.update(x[:9], ids[:9])
    score.update(x[9:], torch.eye(K)[ids[9:]].to_sparse())
    torch.testing.assert_close(score.compute(), scores.top_k_cost(x, ids, METRIC, 2))


def test_in_a_collection_with_others() -> None:
    x, y, _ = data()
    together = torchmetrics.MetricCollection(
        {
            "one": accumulators.Accumulator(scores.top_k_cost, METRIC, 1),
            "three": accumulators.Accumulator(scores.top_k_cost, METRIC, 3),
            "auc": accumulators.Accumulator(scores.ranking_auc),
            "right": accumulators.Accumulator(scores.precision_at_k),
        }
    )
    for rows in torch.arange(23).chunk(3):
        together.update(x[rows], y[rows])
    found = together.compute()
    torch.testing.assert_close(found["one"], scores.top_k_cost(x, y, METRIC, 1))
    torch.testing.assert_close(found["three"], scores.top_k_cost(x, y, METRIC, 3))
    torch.testing.assert_close(found["auc"], scores.ranking_auc(x, y))
    torch.testing.assert_close(found["right"], scores.accuracy(x, y))


def test_scores_that_begin_alike_stay_apart_in_a_collection() -> None:
    """A collection lets metrics share their state if it is equal after the first batch."""
    together = torchmetrics.MetricCollection(
        {
            "right": accumulators.Accumulator(scores.accuracy),
            "near": accumulators.Accumulator(scores.off_by_one_accuracy),
            "first": accumulators.Accumulator(scores.recall_at_k, 1),
            "two": accumulators.Accumulator(scores.recall_at_k, 2),
        }
    )
    x = torch.tensor([[3.0, 2.0, 1.0]])
    together.update(x, torch.tensor([0]))
    together.update(x, torch.tensor([1]))
    assert {name: float(value) for name, value in together.compute().items()} == {
        "right": 0.5,
        "near": 1.0,
        "first": 0.5,
        "two": 1.0,
    }


def test_examples_without_an_auc_are_left_out() -> None:
    x, y = torch.rand(4, 3), torch.tensor([[1, 0, 1], [0, 0, 1], [0, 0, 0], [1, 1, 1]])
    score = accumulators.Accumulator(scores.ranking_auc)
    score.update(x[2:], y[2:])
    assert score.compute().isnan()
    score.update(x[:2], y[:2])
    torch.testing.assert_close(score.compute(), scores.ranking_auc(x, y))


def test_the_metric_follows_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    score = accumulators.Accumulator(scores.top_k_cost, wl.ground.Ordinal(4))
    asked = []
    monkeypatch.setattr(wl.ground.Ordinal, "to", lambda self, **kw: asked.append(kw) or self)
    score.double()  # neither the metric's precision nor the state's changes
    score.update(torch.eye(4), torch.arange(4))
    assert asked == [{"device": torch.device("cpu")}]
    assert score.keywords["metric"].dtype == torch.float32
    assert score.totals.dtype == torch.float64


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: accumulators.Accumulator(scores.top_k_cost, METRIC, 7),
            ValueError,
            "k must be at most",
        ),
        (
            lambda: accumulators.Accumulator(scores.precision_at_k, 0),
            ValueError,
            "k must be at least 1",
        ),
        (
            lambda: accumulators.Accumulator(scores.precision_at_k).update([[1.0]], [0]),
            TypeError,
            "scores must be a tens",
        ),
        (
            lambda: accumulators.Accumulator(scores.precision_at_k).update(
                torch.ones(2, 3), [0, 1], [1.0]
            ),
            ValueError,
            r"sample_weight must have shape \(2,\)",
        ),
    ],
)
def test_bad_input(make: Callable[[], object], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_without_torchmetrics_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any) -> Any:
        if name == "torchmetrics":
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", missing)
    monkeypatch.delitem(sys.modules, "wassloss.scores.accumulators")
    with pytest.raises(ImportError, match=r"pip install 'wassloss\[torchmetrics\]'"):
        importlib.import_module("wassloss.scores.accumulators")


def _process(rank: int, parts: list[list[Tensor]], folder: str) -> None:
    """One of two processes: pass its part of the data to every score, and write the results."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=len(parts)
    )
    try:
        found = {name: fed(name, parts[rank]).compute() for name in pairs()}
        torch.save(found, Path(folder) / f"{rank}.pt")
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    "uneven",
    [False, True],
    ids=["both work", "one is idle"],
)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*compute.*called before.*update:UserWarning")
def test_two_processes_are_as_one(tmp_path: Path, uneven: bool) -> None:
    everything = torch.arange(23)
    shares = [everything[:15], everything[15:]]
    parts = [list(shares[0].chunk(2)), [] if uneven else list(shares[1].chunk(3))]
    if uneven:
        parts[0].append(shares[1])
    torch.multiprocessing.spawn(_process, args=(parts, str(tmp_path)), nprocs=2)
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for name in pairs():
            torch.testing.assert_close(found[name], expected(name), msg=lambda m, n=name: n + m)


@pytest.mark.parametrize("name", pairs())
def test_a_state_from_inference_mode_goes_on_outside_of_it(name: str) -> None:
    """As in Lightning: `validate`, in inference mode, and then `fit`."""
    metric = pairs()[name][0]()
    torch.manual_seed(0)
    x, y = torch.rand(6, K), torch.randint(K, (6,))
    x = x / x.sum(1, keepdim=True)
    metric.update(x, y)
    expected = metric.compute()
    with torch.inference_mode():
        metric.reset()
        metric.update(x, y)
        metric.compute()
        metric.reset()
    metric.update(x, y)
    torch.testing.assert_close(metric.compute(), expected)
