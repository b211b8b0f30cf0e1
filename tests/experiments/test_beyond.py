"""The experiments beyond the paper: their comparisons and verdicts."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy import stats

from experiments.figures import missing, ordinal, relaxed_tags
from experiments.figures.hierarchy import heaviest
from experiments.lab.dataset import Dataset
from experiments.lab.experiment import Outcome
from experiments.lab.families import FAMILIES, Budget, draw_trials, find_family
from experiments.lab.labelled import as_labelled, load_labelled
from experiments.lab.pca import compressed
from experiments.lab.search import Candidate
from experiments.lab.single_label import Guesses, summarize, verdicts
from experiments.lab.threads import one_thread
from experiments.lab.trials import Scores, Trial
from experiments.registry import EXPERIMENTS
from tests.experiments.tiny import SETTINGS
from wassloss.ground import Ordinal
from wassloss.losses.baselines import PoissonLoss
from wassloss.targets import SparseTarget

CPU = torch.device("cpu")


def _guesses(distance: list[int], seeds: int = 3) -> list[Guesses]:
    found = np.array(distance * 20, dtype=float)
    return [Guesses(found, (found == 0) * 1.0, (found >= 2) * 1.0) for _ in range(seeds)]


def _comparison(**distances: list[int]) -> dict:
    candidates = {
        family: [Candidate(Trial("plan", 0.1), 10, float(np.mean(found)), 0.9, 0.5)]
        for family, found in distances.items()
    }
    guesses = {family: _guesses(found) for family, found in distances.items()}
    return {"settings": {"far": 2}, "found": summarize(candidates, guesses)}


def test_a_nearer_wasserstein_loss_holds() -> None:
    result = _comparison(kl=[3, 0, 2], decoded=[3, 0, 2], plan=[1, 0, 1])
    found = verdicts(result, "grade")
    assert [verdict.outcome for verdict in found] == [Outcome.HELD] * 3
    assert "-1.000 [-1.213, -0.787] grades against 1.667 (-60.0%)" in found[0].effect


def test_a_nearer_rival_is_named() -> None:
    result = _comparison(kl=[3, 0, 2], decoded=[0, 0, 1], plan=[1, 1, 1])
    found = verdicts(result, "grade")
    # Nearer than KL with fewer grave mistakes, but never right, and a rival is nearer.
    assert [v.outcome for v in found] == [Outcome.HELD, Outcome.FAILED, Outcome.PARTLY]
    assert "Nearer to the truth, outside the interval: KL, least expected cost." in found[1].words


@pytest.mark.parametrize(
    ("plan", "words"), [([3, 1, 2], "KL is nearer"), ([0, 3, 2], "No clear difference")]
)
def test_what_is_not_nearer_does_not_hold(plan, words) -> None:
    found = verdicts(_comparison(kl=[3, 0, 2], plan=plan), "grade")
    assert found[0].outcome is Outcome.FAILED
    assert words in found[0].words
    assert found[2].outcome is Outcome.FAILED


def test_guesses_are_whole_steps_of_the_top_1_cost() -> None:
    curve = np.array([[0.0, 9.0], [1 / 3, 9.0], [0.9999999, 9.0]])
    guesses = Guesses.of(Scores(curve, np.ones(3), np.array([1.0, 0.0, 0.0])), 3.0, 2)
    assert guesses.distance.tolist() == [0, 1, 3]
    assert guesses.far.tolist() == [0, 0, 1]
    assert Guesses.joined([guesses, guesses]).summary() == guesses.summary()


def test_every_patient_is_guessed_once_and_never_learnt_from() -> None:
    tested = []
    for fold in range(4):
        data = ordinal.diabetes(fold, 4, 10)
        rows = {name: set(part.tolist()) for name, part in data.parts.items()}
        assert sum(map(len, rows.values())) == len(set.union(*rows.values())) == 442
        tested += data.parts["test"].tolist()
    assert sorted(tested) == list(range(442))
    counts = torch.bincount(data.target)
    assert int(counts.max() - counts.min()) <= 1
    # Grades are in the order of progression, which correlates with the body mass index.
    assert stats.spearmanr(data.features[:, 2], data.target).statistic > 0.5
    assert as_labelled(data, CPU).metric.median_cost() == pytest.approx(1.0)


def test_the_label_is_what_most_captions_name_and_the_first_of_equals() -> None:
    target = SparseTarget(
        torch.tensor([[7, 2, 0], [5, 1, 3]]), torch.tensor([[3.0, 3.0, 0.0], [1.0, 2.0, 4.0]])
    )
    assert heaviest(target).tolist() == [2, 3]


def test_compressed_features_keep_the_largest_variances() -> None:
    torch.manual_seed(0)
    x = torch.randn(50, 4) * torch.tensor([1.0, 10.0, 0.1, 5.0])
    rows = {"train": torch.arange(40), "test": torch.arange(40, 50)}
    data = Dataset(x, torch.zeros(50, dtype=torch.long), parts=rows, metric=Ordinal(2))
    small = compressed(data, 2)
    train = small.part("train").features
    expected = torch.linalg.svdvals(x[:40] - x[:40].mean(0))[:2]
    torch.testing.assert_close(train.norm(dim=0), expected)
    assert compressed(data, None) is compressed(data, 4) is data


def test_squared_emd_is_a_family_of_ordered_labels_alone() -> None:
    assert "squared_emd" not in FAMILIES
    budget = Budget(2, 3, (0.0005,))
    trials = draw_trials("squared_emd", budget, length=10.0, typical=1.0, seed=0)
    assert len(trials) == 6
    assert {trial.loss for trial in trials} == {"squared_emd"}
    with pytest.raises(ValueError, match=r"family must be one of kl, .*, got 'emd'"):
        find_family("emd")


def test_tags_are_left_out_where_models_learn_and_nowhere_else() -> None:
    data = load_labelled("clipart", CPU)
    half, most = (missing.incomplete(data, rate, 3) for rate in (0.5, 0.75))
    for part in ("train", "validation"):
        before, after, fewer = (
            getattr(each, part).target.weights > 0 for each in (data, half, most)
        )
        assert bool(before[after].all()), "no tag is made up"
        assert bool(after.any(1).all()), "every example has some tag"
        assert fewer.sum() < after.sum() < before.sum()
        torch.testing.assert_close(
            getattr(half, part).target.weights.sum(1), torch.ones(len(before))
        )
    assert half.test is data.test
    other = missing.incomplete(data, 0.5, 4)
    assert not torch.equal(other.train.target.weights, half.train.target.weights)


def _missing_result(plan: list[float], softened: float) -> dict:
    def gap(mean: float) -> dict:
        return {score: {"mean": mean, "low": mean - 0.1, "high": mean + 0.1}
                for score in ("cost", "auc")}  # fmt: skip

    run = {"cost": 1.0, "auc": 0.9, "curve": [1.0]}
    families = ["kl", "softened", "plan"]
    rates = [
        {
            "scores": {family: [run] for family in families},
            "chosen": {"plan": {"cost": 1.0}},
            "differences": {"plan": {"kl": gap(mean), "softened": gap(softened)}},
        }
        for mean in plan
    ]
    lost = gap(plan[-1] - plan[0])["cost"]
    return {
        "settings": {"rates": [0.0, 0.5], "families": families},
        "found": {"sets": {"a": {"rates": rates, "lost": {"plan": [lost], "softened": [lost]}}}},
    }


@pytest.mark.parametrize(
    ("plan", "softened", "outcomes"),
    [
        ([-0.2, -0.5], -0.2, [Outcome.HELD, Outcome.HELD, Outcome.HELD]),
        ([-0.2, -0.25], 0.05, [Outcome.HELD, Outcome.FAILED, Outcome.HELD]),
        ([-0.2, 0.2], 0.2, [Outcome.PARTLY, Outcome.FAILED, Outcome.FAILED]),
        ([0.0, 0.2], -0.2, [Outcome.FAILED, Outcome.FAILED, Outcome.HELD]),
    ],
)
def test_verdicts_on_missing_tags_follow_the_numbers(plan, softened, outcomes) -> None:
    found = missing.verdict(_missing_result(plan, softened))
    assert [verdict.outcome for verdict in found] == outcomes


def test_missing_files_leave_a_set_out(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("WASSLOSS_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings = dataclasses.replace(SETTINGS["missing"], sets=("flickr8k",))
    assert missing.compute(settings) == {"sets": {}}
    for name in ("hierarchy", "relaxed-tags"):
        with pytest.raises(FileNotFoundError, match="flickr8k"):
            EXPERIMENTS[name].compute(SETTINGS[name], None)


def _measures_result(cost: float, poisson: float, mean: float) -> dict:
    def gap(value: float) -> dict:
        return {"mean": value, "low": value - 0.1, "high": value + 0.1}

    run = {"cost": 0.5, "auc": 0.9, "error": 0.6, "curve": [0.5]}
    differences = {
        other: {"cost": gap(cost), "auc": gap(0.0), "error": gap(error)}
        for other, error in (("mean", mean), ("balanced", 0.0), ("poisson", poisson))
    }
    return {
        "found": {
            "scores": {name: [run] for name in relaxed_tags.METHODS},
            "differences": {"relaxed": differences},
            "chosen": {"relaxed": {"trial": {"strength": 5.0, "gamma": 1.0}}},
            "mean_measure": {"test": run},
            "mean_total": 2.5,
        }
    }


@pytest.mark.parametrize(
    ("cost", "poisson", "mean", "outcomes"),
    [
        (-0.2, 0.0, -0.2, [Outcome.HELD, Outcome.HELD, Outcome.HELD]),
        (0.0, 0.2, -0.2, [Outcome.FAILED, Outcome.FAILED, Outcome.PARTLY]),
        (0.2, -0.2, 0.0, [Outcome.FAILED, Outcome.FAILED, Outcome.FAILED]),
    ],
)
def test_verdicts_on_measures_follow_the_numbers(cost, poisson, mean, outcomes) -> None:
    found = relaxed_tags.verdict(_measures_result(cost, poisson, mean))
    assert [verdict.outcome for verdict in found] == outcomes


def test_poisson_loss_is_torchs_up_to_what_counts_alone_decide() -> None:
    generator = torch.Generator().manual_seed(0)
    log_h = torch.randn(5, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    y = torch.poisson(torch.full((5, 4), 2.0, dtype=torch.float64), generator=generator) + 1
    ours = PoissonLoss(4, reduction="none")(log_h, y)
    theirs = torch.nn.PoissonNLLLoss(reduction="none")(log_h, y).sum(1)
    at_best = (y - y * y.log()).sum(1)
    torch.testing.assert_close(ours, theirs - at_best)
    assert torch.autograd.gradcheck(lambda x: PoissonLoss(4)(x, y), log_h)


def test_one_thread_is_given_back() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
