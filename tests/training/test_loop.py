"""The loop: scores and early stopping, the log, warnings, and what stops a run."""

import json
import math
import warnings
from pathlib import Path

import pytest
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

import wassloss as wl
from tests.training.problems import grades, linear, perceptron, same, tags, wasserstein
from wassloss.training import DivergedError, TrainingPlan, read_log, train


def accuracy(outputs: Tensor, target: Tensor) -> Tensor:
    return (outputs.argmax(1) == target).float().mean()


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_every_optimizer_learns(optimizer: str) -> None:
    plan = TrainingPlan(steps=150, batch_size=50, optimizer=optimizer, log_every=50)
    model, unseen = linear(), grades(seed=1)
    result = train(
        model, wasserstein(), tags(), plan, validation=unseen, score=accuracy, higher_is_better=True
    )
    assert result.log[-1].loss < 0.9 * result.log[0].loss
    assert result.score == accuracy(model(unseen[0]), unseen[1])


def test_a_run_depends_on_its_seed_alone() -> None:
    plan = TrainingPlan(steps=20)
    models = [perceptron() for _ in range(3)]
    for place, model in enumerate(models):
        torch.rand(place)  # what the caller draws before does not matter
        train(model, wasserstein(), tags(), plan)
    train(models[2], wasserstein(), tags(), TrainingPlan(steps=20, seed=1))
    assert same(models[0], models[1])
    assert not same(models[0], models[2])


def test_the_callers_random_numbers_are_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    train(perceptron(), wasserstein(), tags(), TrainingPlan(steps=2))
    torch.set_rng_state(state)
    assert torch.equal(torch.rand(3), expected)
    before = torch.get_rng_state()
    model = linear()
    torch.set_rng_state(before)
    train(model, wasserstein(), tags(), TrainingPlan(steps=2))
    assert torch.equal(torch.get_rng_state(), before)


# --- the score and early stopping ---------------------------------------------------------------


class Scripted:
    """A score that says what it is told to, whatever the model."""

    def __init__(self, *scores: float) -> None:
        self.scores = list(scores)

    def __call__(self, outputs: Tensor, target: Tensor) -> float:
        return self.scores.pop(0)


@pytest.mark.parametrize("sign", [1, -1])
def test_early_stopping_keeps_the_best_weights(sign: int) -> None:
    scores = [sign * score for score in (3.0, 2.0, 2.5, 2.0, 1.0)]  # the second is the best
    plan = TrainingPlan(steps=100, evaluate_every=10, patience=2)
    model, best = linear(), linear()
    result = train(
        model,
        wasserstein(),
        tags(),
        plan,
        validation=grades(),
        score=Scripted(*scores),
        higher_is_better=sign < 0,
    )
    assert result.stopped_early
    assert (result.steps, result.best_step) == (40, 20)
    assert (result.score, result.best_score) == (2.0 * sign, 2.0 * sign)
    assert [record.step for record in result.log if record.score is not None] == [
        10,
        20,
        30,
        40,
    ]
    train(best, wasserstein(), tags(), TrainingPlan(steps=20))
    assert same(model, best)


def test_without_patience_the_last_weights_stay() -> None:
    plan = TrainingPlan(steps=30, evaluate_every=10)
    model, last = linear(), linear()
    score = Scripted(1.0, 2.0, 3.0)
    result = train(model, wasserstein(), tags(), plan, validation=grades(), score=score)
    assert (result.best_step, result.best_score, result.stopped_early) == (10, 1.0, False)
    train(last, wasserstein(), tags(), TrainingPlan(steps=30))
    assert same(model, last)


def test_the_score_is_the_loss_by_default_and_sees_no_dropout() -> None:
    model, unseen, loss_fn = perceptron(), grades(5000, seed=1), wasserstein()
    plan = TrainingPlan(steps=5, evaluate_every=5)
    result = train(model, loss_fn, tags(), plan, validation=unseen)
    assert model.training
    assert result.score == pytest.approx(loss_fn(model.eval()(unseen[0]), unseen[1]).item())


# --- the log ------------------------------------------------------------------------------------


def test_the_log_can_be_read_back(tmp_path: Path) -> None:
    plan = TrainingPlan(steps=25, log_every=10, evaluate_every=15)
    result = train(linear(), wasserstein(), tags(), plan, validation=grades(), directory=tmp_path)
    assert read_log(tmp_path) == read_log(tmp_path / "log.jsonl") == result.log
    assert [(r.step, r.score is None) for r in result.log] == [
        (10, True),
        (15, False),
        (20, True),
        (25, False),
    ]
    assert [r.seconds for r in result.log] == sorted(r.seconds for r in result.log)


def test_the_logged_loss_is_the_mean_of_its_interval() -> None:
    losses = []

    def loss_fn(outputs: Tensor, target: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(outputs, target)
        losses.append(loss.item())
        return loss

    result = train(linear(), loss_fn, grades(), TrainingPlan(steps=7, log_every=4))
    assert [record.loss for record in result.log] == pytest.approx(
        [sum(losses[:4]) / 4, sum(losses[4:]) / 3]
    )


def test_a_log_cut_short_is_read_up_to_there(tmp_path: Path) -> None:
    train(linear(), wasserstein(), tags(), TrainingPlan(steps=3, log_every=1), directory=tmp_path)
    log = tmp_path / "log.jsonl"
    log.write_text(log.read_text()[:-5])
    assert [record.step for record in read_log(log)] == [1, 2]
    log.write_text("{}\n" + log.read_text())
    with pytest.raises(ValueError, match=r"line 1 of .*log.jsonl is not a record"):
        read_log(log)
    assert json.loads(log.read_text().splitlines()[1])["step"] == 1


def test_the_progress_bar_shows_only_when_told_or_on_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = TrainingPlan(steps=4, evaluate_every=2)
    train(linear(), wasserstein(), tags(), plan)
    train(linear(), wasserstein(), tags(), plan, progress=False)
    assert capsys.readouterr().err == ""
    train(linear(), wasserstein(), tags(), plan, validation=grades(), progress=True)
    shown = capsys.readouterr().err
    assert "4/4" in shown
    assert "loss=" in shown
    assert "score=" in shown


# --- warnings and errors ------------------------------------------------------------------------


def test_unconverged_solves_are_reported_once_and_counted_in_the_log() -> None:
    loss_fn = wl.WassersteinLoss(
        wl.ground.Ordinal(5, power=2),
        epsilon=0.001,
        solver=wl.transport.Sinkhorn(max_iterations=1),
        kl_weight=0.0,
        own_units=True,
    )
    plan = TrainingPlan(steps=6, log_every=3)
    with pytest.warns(wl.ConvergenceWarning, match="6 solves did not converge") as caught:
        result = train(linear(), loss_fn, tags(), plan)
    assert len(caught) == 1
    assert [record.unconverged for record in result.log] == [3, 3]


def test_other_warnings_pass() -> None:
    def loss_fn(outputs: Tensor, target: Tensor) -> Tensor:
        warnings.warn("look out", UserWarning, stacklevel=1)
        return nn.functional.cross_entropy(outputs, target)

    with pytest.warns(UserWarning, match="look out"):
        train(linear(), loss_fn, grades(), TrainingPlan(steps=1))


def test_a_loss_that_is_not_finite_stops_the_run_and_says_when(tmp_path: Path) -> None:
    calls = []

    def loss_fn(outputs: Tensor, target: Tensor) -> Tensor:
        calls.append(1)
        loss = nn.functional.cross_entropy(outputs, target)
        return loss * math.nan if len(calls) == 13 else loss

    plan = TrainingPlan(steps=40, checkpoint_every=5)
    model, before = linear(), linear()
    with pytest.raises(DivergedError, match="the loss is not finite at step 13: lower"):
        train(model, loss_fn, grades(), plan, directory=tmp_path)
    train(before, nn.CrossEntropyLoss(), grades(), TrainingPlan(steps=12))
    assert same(model, before)
    resumed = train(model, loss_fn, grades(), plan, directory=tmp_path, resume=True)
    assert resumed.steps == 40


def test_weights_that_blow_up_are_told_from_wrong_input() -> None:
    plan = TrainingPlan(steps=50, learning_rate=1e30)
    with pytest.raises(DivergedError, match=r"the model's output is not finite at step [23]:"):
        train(linear(), wasserstein(), tags(), plan)
    x, y = grades()
    with pytest.raises(ValueError, match=r"target must hold class ids in 0\.\.4 .*, got 9"):
        train(linear(), wasserstein(), (x, torch.full_like(y, 9)), plan)


def test_a_score_that_is_not_finite_stops_the_run() -> None:
    plan = TrainingPlan(steps=9, evaluate_every=3)
    score = Scripted(1.0, math.nan)
    with pytest.raises(DivergedError, match="the score is not finite at step 6"):
        train(linear(), wasserstein(), tags(), plan, validation=grades(), score=score)


def test_wrong_losses() -> None:
    with pytest.raises(ValueError, match=r"loss_fn must return one number .* got \(100,\)"):
        train(linear(), nn.CrossEntropyLoss(reduction="none"), grades())
    learned = nn.Sequential(nn.Linear(5, 5))
    with pytest.raises(ValueError, match="loss_fn must have nothing to train"):
        train(linear(), learned, grades())
    with pytest.raises(ValueError, match="directory must be given where resume=True"):
        train(linear(), wasserstein(), tags(), resume=True)


def test_cuda_graphs_need_cuda() -> None:
    with pytest.raises(ValueError, match="cuda_graph needs a model on a CUDA device, got cpu"):
        train(linear(), wasserstein(), tags(), cuda_graph=True)


# --- Fabric -------------------------------------------------------------------------------------


def test_mixed_precision_through_fabric() -> None:
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    seen = []

    class Watched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = linear()

        def forward(self, x: Tensor) -> Tensor:
            logits = self.inside(x)
            seen.append(logits.dtype)
            return logits

    model = Watched()
    result = train(model, wasserstein(), tags(), TrainingPlan(steps=5), fabric=fabric)
    assert set(seen) == {torch.bfloat16}
    assert model.inside.linear.weight.dtype == torch.float32
    assert math.isfinite(result.loss)
