"""The loop: scores, the log, warnings, and conditions that stop a run."""

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


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_every_optimizer_learns(optimizer: str) -> None:
    plan = TrainingPlan(steps=150, batch_size=50, optimizer=optimizer, log_every=50)
    log = train(linear(), wasserstein(), tags(), plan)
    assert log[-1].loss < 0.9 * log[0].loss


def test_a_run_depends_on_its_seed_alone() -> None:
    plan = TrainingPlan(steps=20)
    models = [perceptron() for _ in range(3)]
    for place, model in enumerate(models):
        torch.rand(place)  # the caller's random numbers do not matter
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


# --- the score ----------------------------------------------------------------------------------


class Scripted:
    """A score that returns given values, whatever the model."""

    def __init__(self, *scores: float) -> None:
        self.scores = list(scores)

    def __call__(self, model: nn.Module) -> float:
        return self.scores.pop(0)


def test_the_score_sees_no_dropout_and_leaves_the_training_alone() -> None:
    model, straight, unseen, loss_fn = perceptron(), perceptron(), grades(seed=1), wasserstein()

    def evaluate(model: nn.Module) -> Tensor:
        assert not model.training
        loss = loss_fn(model(unseen[0]), unseen[1])
        assert not loss.requires_grad
        return loss

    plan = TrainingPlan(steps=15, evaluate_every=5)
    log = train(model, loss_fn, tags(), plan, evaluate=evaluate)
    assert model.training
    assert log[-1].score == pytest.approx(evaluate(model.eval().requires_grad_(False)).item())
    train(straight, loss_fn, tags(), plan)
    assert same(model, straight)


def test_an_interrupted_score_leaves_the_model_in_training_mode() -> None:
    def interrupted(model: nn.Module) -> float:
        raise KeyboardInterrupt

    plan = TrainingPlan(steps=5, evaluate_every=5)
    model = perceptron()
    with pytest.raises(KeyboardInterrupt):
        train(model, wasserstein(), tags(), plan, evaluate=interrupted)
    assert model.training
    with pytest.raises(TypeError, match="evaluate must return a number, got None"):
        train(model, wasserstein(), tags(), plan, evaluate=lambda _: None)


# --- the log ------------------------------------------------------------------------------------


def test_the_log_can_be_read_back(tmp_path: Path) -> None:
    plan = TrainingPlan(steps=25, log_every=10, evaluate_every=15)
    score = Scripted(1.0, 2.0)
    log = train(linear(), wasserstein(), tags(), plan, evaluate=score, directory=tmp_path)
    assert read_log(tmp_path) == read_log(tmp_path / "log.jsonl") == log
    assert [(r.step, r.score) for r in log] == [(10, None), (15, 1.0), (20, None), (25, 2.0)]
    assert [r.seconds for r in log] == sorted(r.seconds for r in log)


def test_the_logged_loss_is_the_mean_of_its_interval() -> None:
    losses = []

    def loss_fn(outputs: Tensor, target: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(outputs, target)
        losses.append(loss.item())
        return loss

    log = train(linear(), loss_fn, grades(), TrainingPlan(steps=7, log_every=4))
    assert [record.loss for record in log] == pytest.approx(
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
    train(linear(), wasserstein(), tags(), plan, evaluate=Scripted(1.0, 2.0), progress=True)
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
        normalize_cost=False,
    )
    plan = TrainingPlan(steps=6, log_every=3)
    with pytest.warns(wl.ConvergenceWarning, match="6 solves did not converge") as caught:
        log = train(linear(), loss_fn, tags(), plan)
    assert len(caught) == 1
    assert [record.unconverged for record in log] == [3, 3]


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
    assert resumed[-1].step == 40


def test_weights_that_blow_up_are_told_from_wrong_input() -> None:
    plan = TrainingPlan(steps=50, learning_rate=1e30)
    with pytest.raises(DivergedError, match=r"the model's output is not finite at step [23]:"):
        train(linear(), wasserstein(), tags(), plan)
    x, y = grades()
    with pytest.raises(ValueError, match=r"target must hold class ids in 0\.\.4 .*, got 9"):
        train(linear(), wasserstein(), (x, torch.full_like(y, 9)), plan)


def test_a_score_that_is_not_finite_stops_the_run() -> None:
    plan = TrainingPlan(steps=9, evaluate_every=3)
    with pytest.raises(DivergedError, match="the score is not finite at step 6"):
        train(linear(), wasserstein(), tags(), plan, evaluate=Scripted(1.0, math.nan))


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
    log = train(model, wasserstein(), tags(), TrainingPlan(steps=5), fabric=fabric)
    assert set(seen) == {torch.bfloat16}
    assert model.inside.linear.weight.dtype == torch.float32
    assert math.isfinite(log[-1].loss)
