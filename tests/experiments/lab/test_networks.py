"""Networks with several losses: the losses defined in the lab, scores, and the search."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional

from experiments.figures import networks as figure
from experiments.lab.networks import losses, tasks, trials
from experiments.lab.networks.fitting import fit
from experiments.lab.networks.losses import (
    FAMILIES,
    Corn,
    LabelSmoothing,
    chained,
    families_for,
)
from experiments.lab.networks.scoring import score
from experiments.lab.networks.tasks import Part, Recipe, Task, perceptron
from experiments.lab.networks.trials import Job, Run, Trial, choose, draw_trials, run
from tests.places import needs
from wassloss import SparseTarget
from wassloss.ground import Ordinal

LABELS = 5


def made_task(kind: tasks.Kind = "ordered") -> Task:
    """Points on a line, divided into labels, with a little noise."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 3, generator=generator)
    y = ((x[:, 0] + 0.1 * x[:, 1]).clamp(-2, 2) + 2).mul(1.2).long()
    target: torch.Tensor | SparseTarget = y
    if kind == "distribution":
        target = 0.9 * functional.one_hot(y, LABELS).float() + 0.1 / LABELS
    if kind == "tags":
        target = SparseTarget(y[:, None], torch.ones(len(y), 1))
    whole = Part(x, target)
    train, validation, test = (whole.rows(rows) for rows in torch.arange(400).split([200, 50, 150]))
    tree = tuple(("r", "ab"[i % 2], str(i)) for i in range(LABELS))
    model = partial(perceptron, 3, LABELS, (16,), 0.0)
    recipe = Recipe(25, 0.03, 0.01, batch=50)
    metric = Ordinal(LABELS)
    return Task("made", kind, metric, train, validation, test, model, recipe, 2.0, tree)


def test_label_smoothing_is_torchs() -> None:
    logits, target = torch.randn(6, LABELS), torch.randint(LABELS, (6,))
    expected = functional.cross_entropy(logits, target, label_smoothing=0.2)
    torch.testing.assert_close(LabelSmoothing(LABELS, 0.2)(logits, target), expected)


def test_corn_leaves_out_the_last_output() -> None:
    logits, target = torch.randn(40, LABELS), torch.randint(LABELS, (40,))
    h = chained(logits)
    torch.testing.assert_close(h.sum(1), torch.ones(40))
    nll = -h.gather(1, target[:, None]).log().sum()
    asked = sum(int((target >= k).sum()) for k in range(LABELS - 1))
    torch.testing.assert_close(Corn(LABELS)(logits, target) * asked, nll)


@pytest.mark.parametrize("kind", losses.EVERYTHING)
def test_every_loss_learns(kind: tasks.Kind) -> None:
    task = made_task(kind)
    middle = {"right": 0.6, "auc": 0.8, "intersection": 0.6}
    for name, family in families_for(kind).items():
        strengths = {key: float(np.sqrt(a * b)) for key, (a, b) in family.ranges.items()}
        fitted = fit(task, family.build(task, strengths), 0)
        h = family.probabilities(fitted.test)
        scores = score(task, task.test, h)
        guard = next(key for key in middle if key in scores)
        assert scores[guard].mean() > middle[guard], name
        assert all(np.isfinite(values).all() for values in scores.values()), name


def test_scores_of_labels_by_hand() -> None:
    task = made_task()
    h = torch.tensor([[0.4, 0.0, 0.3, 0.3, 0.0]])
    part = Part(torch.zeros(1, 3), torch.tensor([3]))
    found = {name: float(values[0]) for name, values in score(task, part, h).items()}
    assert found["distance"] == 3  # predicts 0
    assert found["least cost: distance"] == 1  # predicts 2, the median
    assert found["grave"] == 1
    assert found["least cost: grave"] == found["right"] == 0
    assert found["nll"] == pytest.approx(-np.log(0.3), rel=1e-5)
    assert found["rps"] == pytest.approx(0.4**2 + 0.4**2 + 0.7**2, rel=1e-5)


def test_every_family_has_the_same_rates_and_penalties() -> None:
    drawn = {name: draw_trials(name, family, 4) for name, family in FAMILIES.items()}
    pairs = {name: [(t.rate, t.decay) for t in each] for name, each in drawn.items()}
    assert all(each == pairs["ce"] for each in pairs.values())
    assert {key for key, _ in drawn["w"][0].strengths} == {"epsilon", "alpha"}


def test_choices_may_not_lose_accuracy() -> None:
    def found(right: float, distance: float) -> Run:
        return Run({"right": np.array([right]), "distance": np.array([distance])}, 1.0)

    reference = found(0.60, 1.0)
    options = [Trial("w", (("epsilon", e),)) for e in (0.1, 0.2, 0.3)]
    runs = [found(0.50, 0.5), found(0.597, 0.8), found(0.61, 0.9)]
    assert choose(options, runs, "", reference) == options[1]
    assert choose(options[:1], runs[:1], "", reference) == options[0]


def test_trials_survive_json() -> None:
    trial = Trial("w", (("epsilon", 0.2), ("alpha", 0.5)), 0.7, 2.0)
    assert Trial.from_json(trial.as_json()) == trial


def test_a_job_depends_on_its_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    trials._task.cache_clear()
    monkeypatch.setattr(trials, "load_task", lambda name, seed: made_task())
    once, again, other = (run(Job("made", Trial("ce"), seed)) for seed in (1, 1, 2))
    trials._task.cache_clear()
    assert all(np.array_equal(once.scores[k], again.scores[k]) for k in once.scores)
    assert not np.array_equal(once.scores["nll"], other.scores["nll"])


@pytest.mark.slow
def test_the_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "load_task", lambda name, seed: made_task())
    monkeypatch.setattr(figure, "load_task", lambda name, seed: made_task())
    monkeypatch.setattr(figure, "run_all", lambda jobs: [run(job) for job in jobs])
    monkeypatch.setattr(figure, "LONG", {"two": "one"})
    trials._task.cache_clear()
    settings = figure.Settings(("one",), (), ("two",), (), ("two",), trials=2, seeds=2)
    found = figure.compute(settings)
    trials._task.cache_clear()
    result = {"found": found, "mode": "own", "settings": {"seeds": 2, "trials": 2}}
    assert set(figure.draw(result)) == {"untouched", "tuned"}
    assert found["carried"]["two"]["chosen"]["w-soft"] == found["tuned"]["one"]["chosen"]["w-soft"]
    assert "squared − ce" in found["carried"]["two"]["differences"]
    assert list(found["candidates"]["two"]["scores"]) == ["ce", *figure.CANDIDATES]
    verdicts = figure.verdict(result)
    assert len(verdicts) == 5
    assert "of 2 sets" in verdicts[0].effect


@needs("ordinal/cement_strength.csv")
def test_seeds_share_the_test_part_alone() -> None:
    one, other = (tasks.load_task("cement", seed) for seed in (1, 2))
    assert not torch.equal(one.train.target, other.train.target)
    assert torch.equal(one.test.target, other.test.target)
    assert len(one.train) + len(one.validation) + len(one.test) == 998


@needs("ldl/FG-Net.mat")
def test_distributions_sum_to_one() -> None:
    target = tasks.load_task("fg-net", 1).train.target
    torch.testing.assert_close(torch.as_tensor(target).sum(1), torch.ones(len(target)))
