"""Many models at once end where each would have ended on its own."""

import signal
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import wassloss as wl
from experiments.lab.many import ManyResult, train_many
from experiments.lab.many import train as many_train
from experiments.lab.many.closed_form import LinearSteps, loss_and_gradient
from experiments.lab.many.compiled import CompiledSteps
from experiments.lab.many.data import ManyData
from experiments.lab.many.general import GeneralSteps
from experiments.lab.many.problem import linear_problem
from tests.training.problems import (
    FEATURES,
    LABELS,
    grades,
    linear,
    perceptron,
    perceptron_without_dropout,
    same,
    tags,
    wasserstein,
)
from wassloss.kernels import launch
from wassloss.losses import wasserstein_loss
from wassloss.training import CheckpointError, DivergedError, TrainingPlan, train

needs_numba = pytest.mark.skipif(not launch.numba_available(), reason="needs Numba")

KINDS = [
    pytest.param(CompiledSteps, marks=needs_numba, id="compiled"),
    pytest.param(LinearSteps, id="batched"),
    pytest.param(GeneralSteps, id="general"),
]


def plan_with(**changes: Any) -> TrainingPlan:
    return TrainingPlan(
        **{
            "steps": 60,
            "batch_size": 30,
            "learning_rate": 0.2,
            "schedule": "cosine",
            "log_every": 7,
            "checkpoint_every": 20,
            "weight_decay": 0.02,
        }
        | changes
    )


def given(seed: int = 3) -> wl.ground.Matrix:
    """Distances of no particular pattern."""
    costs = torch.rand(LABELS, LABELS, generator=torch.Generator().manual_seed(seed)).triu(1)
    return wl.ground.Matrix(costs + costs.T)


def mixture() -> list[Any]:
    """Losses of several kinds, strengths and metrics."""
    line = wl.ground.Ordinal(LABELS, power=2)
    return [
        nn.CrossEntropyLoss(),
        wl.WassersteinLoss(line, kl_weight=0.2),
        wl.WassersteinLoss(line, epsilon=0.3, regularizer="product"),
        wl.WassersteinLoss(wl.ground.Discrete(LABELS), epsilon=0.0, kl_weight=1.0),
        wl.WassersteinLoss(wl.ground.Embedding(torch.randn(LABELS, 2)), epsilon=1.0),
        wasserstein(),
    ]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One way to take steps, whatever would have been chosen."""
    use(request.param, monkeypatch)
    return request.param


def use(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(
        models: Any, losses: Any, data: ManyData, plan: TrainingPlan, penalties: Tensor, _: bool
    ) -> Any:
        if kind is GeneralSteps:
            return GeneralSteps(models, losses, data, plan, penalties)
        problem = linear_problem(models, losses, data)
        assert problem is not None
        return kind(models, problem, plan, penalties)

    monkeypatch.setattr(many_train, "choose_steps", choose)


def close(models: list[nn.Module], others: list[nn.Module], **tolerances: float) -> None:
    for one, other in zip(models, others, strict=True):
        torch.testing.assert_close(
            dict(one.state_dict()), dict(other.state_dict()), **(tolerances or TOLERANCES)
        )


TOLERANCES = {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.parametrize("sgd", [{}, {"momentum": 0}, {"nesterov": True}], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_many_are_as_one_by_one(kind: Any, sgd: Any, bias: bool) -> None:
    losses, plan = mixture(), plan_with(**sgd)
    seeds = [0, 1, 0, 5, 1, 2]
    rates = [0.2, 0.1, 0.05, 0.2, 0.3, 0.01]
    decays = [0.001, 0.2, 0.0, 0.02, 0.001, 0.04]
    xs, ys = zip(*(grades(seed=r) for r in range(6)), strict=True)
    torch.manual_seed(0)
    models = [wl.models.LinearSoftmax(FEATURES, LABELS, bias=bias) for _ in losses]
    alone = [wl.models.LinearSoftmax(FEATURES, LABELS, bias=bias) for _ in losses]
    for model, other in zip(models, alone, strict=True):
        other.load_state_dict(model.state_dict())

    result = train_many(
        models,
        losses,
        (xs, ys),
        plan,
        seeds=seeds,
        learning_rates=rates,
        weight_decays=decays,
    )
    logs = []
    for r, loss in enumerate(losses):
        own = {"learning_rate": rates[r], "weight_decay": decays[r], "seed": seeds[r]}
        its_plan = plan_with(**sgd, **own)
        single = train(alone[r], loss, (xs[r], ys[r]), its_plan)
        logs.append(single.log)
    close(models, alone)
    assert result.log_iterations.tolist() == [record.step for record in logs[0]]
    expected = torch.tensor([[record.loss for record in log] for log in logs]).T
    torch.testing.assert_close(result.losses.float(), expected, rtol=1e-4, atol=1e-5)
    assert result.iterations == 60
    assert result.seconds > 0


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("rates", [None, [0.01, 0.05, 0.1]])
def test_other_models_targets_and_optimisers(optimizer: str, rates: list[float] | None) -> None:
    shared = wasserstein()
    losses = [shared, shared, wl.WassersteinLoss(given(), epsilon=0.3)]
    models: list[nn.Module] = [perceptron_without_dropout(r) for r in range(3)]
    alone: list[nn.Module] = [perceptron_without_dropout(r) for r in range(3)]
    data = tags()
    plan = plan_with(optimizer=optimizer, learning_rate=None)
    train_many(models, losses, data, plan, learning_rates=rates)
    for r, loss in enumerate(losses):
        own = plan if rates is None else replace(plan, learning_rate=rates[r])
        train(alone[r], loss, data, own)
    close(models, alone, rtol=1e-3, atol=1e-4)


def test_weight_decays_may_differ_where_they_are_part_of_the_gradient() -> None:
    models, alone = ([perceptron_without_dropout(r) for r in range(2)] for _ in range(2))
    decays, data = [0.0, 0.2], tags()
    plan = plan_with(optimizer="adam", learning_rate=0.01)
    train_many(models, wasserstein(), data, plan, weight_decays=decays)
    for model, decay in zip(alone, decays, strict=True):
        own = plan_with(optimizer="adam", learning_rate=0.01, weight_decay=decay)
        train(model, wasserstein(), data, own)
    close(list(models), list(alone), rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match="weight_decays must be equal for AdamW"):
        train_many(models, wasserstein(), data, plan_with(optimizer="adamw"), weight_decays=decays)
    with pytest.raises(ValueError, match="weight_decays must be one, or one for each of the 2"):
        train_many(models, wasserstein(), data, plan_with(), weight_decays=[0.1])


def test_models_are_shown_on_the_way() -> None:
    seen: dict[int, Tensor] = {}

    def observe(iteration: int, models: Any) -> None:
        seen[iteration] = models[1].linear.weight.detach().clone()

    models = [linear(r) for r in range(2)]
    train_many(models, wasserstein(), grades(), plan_with(evaluate_every=25), observe=observe)
    assert list(seen) == [25, 50, 60]
    short = [linear(r) for r in range(2)]
    constant = plan_with(steps=25, schedule="constant")
    train_many(short, wasserstein(), grades(), constant)
    whole = [linear(r) for r in range(2)]
    steady = plan_with(schedule="constant", evaluate_every=25)
    train_many(whole, wasserstein(), grades(), steady, observe=observe)
    torch.testing.assert_close(seen[25], short[1].linear.weight)
    torch.testing.assert_close(seen[60], whole[1].linear.weight)


def test_pixels_and_dense_targets() -> None:
    images = torch.rand(40, 2, 6, 6)
    of_pixels = torch.randint(LABELS, (40, 6, 6))
    of_images = torch.rand(40, LABELS).softmax(1)

    def pixel_model(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Conv2d(2, LABELS, 3, padding=1)

    def image_model(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(72, LABELS))

    for make, target in ((pixel_model, of_pixels), (image_model, of_images)):
        models, alone = [make(0), make(1)], [make(0), make(1)]
        plan, loss = plan_with(steps=10, batch_size=8), wasserstein()
        train_many(models, loss, (images, target), plan)
        for model in alone:
            train(model, loss, (images, target), plan)
        close(models, alone)


def test_losses_that_weigh_or_ignore_examples_are_called_model_by_model() -> None:
    x, y = grades()
    some = torch.where(torch.arange(len(y)) % 3 == 0, -100, y)
    weight = torch.rand(len(y))
    weighted = nn.CrossEntropyLoss(weight=torch.arange(1.0, LABELS + 1))
    cases: list[tuple[Any, Any]] = [
        (wasserstein(), (x, some)),
        (weighted, (x, y)),
        (wasserstein(), (x, y, weight)),
        (lambda outputs, target: cross_entropy(outputs, target) ** 2, (x, y)),
    ]
    for loss, data in cases:
        models, alone = [linear(0), linear(1)], [linear(0), linear(1)]
        train_many(models, loss, data, plan_with())
        for model in alone:
            train(model, loss, data, plan_with())
        close(models, alone)  # type: ignore[arg-type]


def test_the_closed_form_is_found_where_there_is_one() -> None:
    x, y = grades()

    def found(models: Any = None, loss: Any = None, data: Any = (x, y)) -> bool:
        models = models or [linear()]
        read = ManyData(data, len(models))
        return linear_problem(models, [loss or wasserstein()] * len(models), read) is not None

    assert found()
    assert found(loss=nn.CrossEntropyLoss())
    metric = wl.ground.Ordinal(LABELS)
    assert found(loss=wl.WassersteinLoss(metric, epsilon=0, debiased=True))
    assert not found(loss=wl.WassersteinLoss(metric, debiased=True))
    assert not found(loss=wl.WassersteinLoss(metric, iterations=10))
    assert not found(loss=wl.WassersteinLoss(metric, weight=torch.ones(LABELS)))
    assert not found(loss=wl.WassersteinLoss(metric, reduction="sum"))
    assert not found(loss=nn.CrossEntropyLoss(label_smoothing=0.1))
    assert not found(loss=nn.CrossEntropyLoss(weight=torch.ones(LABELS)))
    assert not found(models=[perceptron_without_dropout()])
    assert not found(data=tags())
    frozen = linear()
    frozen.linear.bias.requires_grad_(False)
    assert not found(models=[frozen])


@needs_numba
def test_the_cheapest_steps_are_chosen() -> None:
    data, plan, none = ManyData(grades(), 1), plan_with(), torch.zeros(1)
    choose = partial(many_train.choose_steps, losses=[wasserstein()], decays=none)
    assert type(choose([linear()], data=data, plan=plan)) is CompiledSteps
    assert type(choose([linear()], data=data, plan=plan_with(optimizer="adam"))) is GeneralSteps
    wide = ManyData((torch.randn(9, 100), torch.zeros(9, dtype=torch.long)), 1)
    model = wl.models.LinearSoftmax(100, LABELS)
    assert type(choose([model], data=wide, plan=plan)) is LinearSteps


# The step itself


def problem(seed: int = 0, models: int = 3, batch: int = 8) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    theta = 4 * rand(models, FEATURES, LABELS) - 2
    x = rand(models, batch, FEATURES)
    ids = torch.randint(LABELS, (models, batch), generator=generator)
    tables = rand(models, LABELS, LABELS).triu(1)
    return theta, x, ids, tables + tables.mT, rand(models, 1, 1), rand(models, 1, 1)


def test_gradient_is_that_of_the_loss_by_finite_differences() -> None:
    theta, x, ids, tables, epsilon, kl_weight = problem()
    cost = tables[torch.arange(3)[:, None], ids]
    gradient = loss_and_gradient(theta, x, ids, cost, epsilon, kl_weight).gradient
    numeric, step = torch.empty_like(theta), 1e-6
    for d in range(FEATURES):
        for k in range(LABELS):
            values = []
            for sign in (1, -1):
                moved = theta.clone()
                moved[:, d, k] += sign * step
                values.append(loss_and_gradient(moved, x, ids, cost, epsilon, kl_weight).loss)
            numeric[:, d, k] = (values[0] - values[1]) / (2 * step)
    torch.testing.assert_close(gradient, numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("regularizer", ["plan", "product"])
def test_loss_and_gradient_are_those_of_the_library(regularizer: str) -> None:
    theta, x, ids, tables, epsilon, kl_weight = problem()
    strength = epsilon if regularizer == "plan" else torch.zeros_like(epsilon)
    cost = tables[torch.arange(3)[:, None], ids]
    loss, gradient = loss_and_gradient(theta, x, ids, cost, strength, kl_weight)
    for r in range(3):
        own = theta[r].clone().requires_grad_()
        expected = wasserstein_loss(
            x[r] @ own,
            ids[r],
            wl.ground.Matrix(tables[r]),
            epsilon=float(epsilon[r]),
            kl_weight=float(kl_weight[r]),
            regularizer=regularizer,
        ).mean()
        expected.backward()
        torch.testing.assert_close(loss[r], expected.detach())
        torch.testing.assert_close(gradient[r], own.grad)


def test_kl_alone_is_cross_entropy() -> None:
    theta, x, ids, _, _, _ = problem()
    zero, one = torch.zeros(3, 1, 1).double(), torch.ones(3, 1, 1).double()
    nothing = torch.zeros(3, 8, LABELS).double()
    loss, gradient = loss_and_gradient(theta, x, ids, nothing, zero, one)
    theta.requires_grad_()
    for r in range(3):
        expected = cross_entropy(x[r] @ theta[r], ids[r])
        torch.testing.assert_close(loss[r], expected)
        (own,) = torch.autograd.grad(expected, theta)
        torch.testing.assert_close(gradient[r], own[r])


@needs_numba
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch", [1, 33, 100])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_compiled_steps_are_the_batched_ones(
    dtype: torch.dtype, batch: int, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    xs, ys = zip(*(grades(seed=r) for r in range(6)), strict=True)
    xs = [x.to(dtype) for x in xs]
    plan = plan_with(learning_rate=0.01, steps=5, batch_size=batch, log_every=1)
    trained = []
    for kind in (CompiledSteps, LinearSteps):
        use(kind, monkeypatch)
        models = [linear(r).to(dtype) for r in range(6)]
        for model in models:
            model.linear.weight.data *= scale  # masses that vanish in single precision
        result = train_many(models, mixture(), (xs, list(ys)), plan, seeds=range(6))
        trained.append((result.losses, [model.linear.weight.detach() for model in models]))
    digits = 1e-4 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(*trained, rtol=digits, atol=digits * scale)


@needs_numba
def test_each_model_is_the_same_whatever_trains_beside_it() -> None:
    x, y = grades()
    models, losses = [linear(r) for r in range(6)], mixture()
    train_many(models, losses, (x, y), plan_with())
    one = linear(4)
    train_many([one], losses[4:5], (x, y), plan_with())
    assert same(one, models[4])


def test_one_of_many_that_diverges_is_named(kind: Any, tmp_path: Path) -> None:
    x, y = grades()
    models = [linear(r) for r in range(4)]
    before = [model.linear.weight.clone() for model in models]
    bad = [0.1, 0.1, 1e38, 0.1]
    plan = plan_with(steps=30, checkpoint_every=1, log_every=4)
    with pytest.raises(DivergedError, match=r"loss of model 2 .* step \d+: .*e\+37"):
        train_many(models, wasserstein(), (x, y), plan, learning_rates=bad, directory=tmp_path)
    for model, weight in zip(models, before, strict=True):
        assert torch.equal(model.linear.weight, weight)


# Data


def test_data_for_all_and_for_each() -> None:
    x, y = grades()
    shared, listed = [linear(0), linear(1)], [linear(0), linear(1)]
    train_many(shared, wasserstein(), (x, y), plan_with())
    train_many(listed, wasserstein(), ([x.clone(), x], [y, y.clone()]), plan_with())
    for one, other in zip(shared, listed, strict=True):
        torch.testing.assert_close(one.state_dict(), other.state_dict())


def test_what_models_share_is_kept_once() -> None:
    x, y = grades()
    data = ManyData(([x, x, x.clone()], y), 3)
    assert [len(column.values) for column in data.columns] == [2, 1]
    losses = [wasserstein(), nn.CrossEntropyLoss(), nn.CrossEntropyLoss()]
    found = linear_problem([linear(r) for r in range(3)], losses, data)
    assert found is not None
    assert found.features_of.tolist() == [0, 0, 1]
    assert found.cost_of.tolist() == [0, 1, 1]


def test_outputs() -> None:
    x, y = grades()
    models = [linear(0), linear(1)]
    result = train_many(models, wasserstein(), (x, y), plan_with())
    expected = torch.stack([model(x) for model in models])
    torch.testing.assert_close(result.outputs(x), expected.detach())
    torch.testing.assert_close(result.outputs([x, x[:, :]]), expected.detach())
    with pytest.raises(ValueError, match="features must be one tensor, or one for each of the 2"):
        result.outputs([x])


# Checkpoints


def test_resuming_is_exact(kind: Any, tmp_path: Path) -> None:
    x, y = grades()
    seeds, rates = [0, 1, 0, 2, 3, 4], [0.1, 0.2, 0.1, 0.1, 0.1, 0.3]
    losses = mixture()

    def run(models: list[Any], iterations: int, directory: Path | None) -> ManyResult:
        plan = plan_with(steps=iterations, schedule="constant", warmup_steps=25)
        return train_many(
            models,
            losses,
            (x, y),
            plan,
            seeds=seeds,
            learning_rates=rates,
            directory=directory,
            resume=directory is not None,
        )

    undisturbed, models = [linear(r) for r in range(6)], [linear(r) for r in range(6)]
    expected = run(undisturbed, 60, None)
    run(models, 35, tmp_path)
    models = [linear(9) for _ in range(6)]  # the checkpoint has the weights
    result = run(models, 60, tmp_path)
    assert all(same(one, other) for one, other in zip(models, undisturbed, strict=True))
    assert torch.equal(result.losses[-2:], expected.losses[-2:])
    assert run([linear(9) for _ in range(6)], 60, tmp_path).iterations == 60


def test_a_run_cut_short_goes_on(kind: Any, tmp_path: Path, monkeypatch: Any) -> None:
    x, y = grades()
    plan, undisturbed = plan_with(), [linear(r) for r in range(3)]
    loss = wasserstein()
    expected = train_many(undisturbed, loss, (x, y), plan)

    class Crash(Exception):  # noqa: N818
        pass

    def crash(self: Any, rows: Tensor, order_of: Tensor, lr: Tensor) -> None:
        calls.append(1)
        if len(calls) == 9:
            raise Crash
        advance(self, rows, order_of, lr)

    calls: list[int] = []
    advance = kind.advance
    monkeypatch.setattr(kind, "advance", crash)
    with pytest.raises(Crash):
        train_many([linear(r) for r in range(3)], loss, (x, y), plan, directory=tmp_path)
    models = [linear(9) for _ in range(3)]
    result = train_many(models, loss, (x, y), plan, directory=tmp_path, resume=True)
    assert all(same(one, other) for one, other in zip(models, undisturbed, strict=True))
    assert torch.equal(result.losses, expected.losses)
    assert torch.equal(result.log_iterations, expected.log_iterations)


def test_random_numbers_are_resumed(tmp_path: Path) -> None:
    plan, loss, undisturbed = (
        plan_with(schedule="constant", warmup_steps=25),
        wasserstein(),
        [perceptron(), perceptron(1)],
    )
    train_many(undisturbed, loss, tags(), plan)
    for iterations in (20, 60):
        models = [perceptron(), perceptron(1)]
        part = plan_with(schedule="constant", warmup_steps=25, steps=iterations)
        train_many(models, loss, tags(), part, directory=tmp_path, resume=True)
    assert all(same(one, other) for one, other in zip(models, undisturbed, strict=True))


def test_ctrl_c_saves_first(tmp_path: Path) -> None:
    x, y = grades()
    plan = plan_with(steps=10**7, log_every=100, checkpoint_every=10**7)
    models, loss = [linear(r) for r in range(2)], wasserstein()

    def interrupt() -> None:
        time.sleep(0.5)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        train_many(models, loss, (x, y), plan, directory=tmp_path)
    (saved,) = tmp_path.glob("checkpoint-*")
    reached = int(saved.stem.removeprefix("checkpoint-"))
    assert 0 < reached < 10**7


def test_only_the_same_run_is_resumed(tmp_path: Path) -> None:
    x, y = grades()

    def run(**changes: Any) -> ManyResult:
        own = {
            "models": [linear(0), linear(1)],
            "losses": wl.WassersteinLoss(given(), epsilon=0.1),
            "data": (x, y),
            "plan": plan_with(),
            "directory": tmp_path,
            "resume": True,
        }
        return train_many(**(own | changes))

    run()
    with pytest.raises(ValueError, match="directory must be new, or resume=True"):
        run(resume=False)
    with pytest.raises(ValueError, match="data and losses must be the run's own"):
        run(data=(x, (y + 1) % LABELS))
    with pytest.raises(ValueError, match="data and losses must be the run's own"):
        run(losses=nn.CrossEntropyLoss())
    with pytest.raises(ValueError, match="data and losses must be the run's own"):
        run(losses=wl.WassersteinLoss(given(4), epsilon=0.1))
    with pytest.raises(ValueError, match="seeds must be the run's own"):
        run(seeds=[1, 2])
    with pytest.raises(ValueError, match="learning_rates must be the run's own"):
        run(learning_rates=[1, 2])
    with pytest.raises(ValueError, match="models must be the run's own"):
        run(models=[linear(0)])
    with pytest.raises(ValueError, match="plan must have the run's own batch_size"):
        run(plan=plan_with(batch_size=10))
    for path in tmp_path.glob("checkpoint-*"):
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CheckpointError):
        run()


def test_a_single_run_is_not_taken_for_many(tmp_path: Path) -> None:
    train(linear(), wasserstein(), grades(), plan_with(), directory=tmp_path)
    with pytest.raises(ValueError, match="directory must be of many models"):
        train_many(
            [linear()], wasserstein(), grades(), plan_with(), directory=tmp_path, resume=True
        )


# Bad input


class WithBuffers(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(FEATURES, LABELS), nn.BatchNorm1d(LABELS))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": []}, "models must be a list of modules"),
        ({"models": [3]}, "models must be a list of modules"),
        ({"models": [nn.ReLU()]}, "models must have parameters"),
        ({"models": [linear(), perceptron_without_dropout()]}, "model 1 unlike model 0"),
        ({"models": [WithBuffers()]}, "models must have no buffers"),
        ({"losses": [wasserstein()]}, "losses must be one, or one for each of the 2 models, got 1"),
        ({"data": (torch.randn(5, FEATURES),)}, r"data must be \(features, target\)"),
        ({"data": ([torch.randn(5, FEATURES)], torch.zeros(5).long())}, "a set for each of the 2"),
        (
            {"data": ([torch.zeros(5, FEATURES), torch.zeros(4, FEATURES)], torch.zeros(5).long())},
            "as many features as targets",
        ),
        ({"data": (torch.full((5, FEATURES), torch.nan), torch.zeros(5).long())}, "finite"),
        ({"data": (torch.zeros(5, FEATURES), torch.full((5,), LABELS))}, "class|target"),
        ({"data": (torch.zeros(5, 2), torch.zeros(5).long())}, "models must be .* these features"),
        ({"seeds": [1]}, "seeds must be one, or one for each"),
        ({"seeds": [1, -1]}, r"seeds must be in 0..2\*\*63 - 1, got -1"),
        ({"learning_rates": [0.1]}, "learning_rates must be one, or one for each"),
        ({"learning_rates": [0.1, 0]}, "learning_rates must be positive"),
        ({"plan": TrainingPlan(patience=3)}, "plan must have patience=None"),
        ({"resume": True}, "directory must be given"),
    ],
)
def test_bad_input(changes: dict[str, Any], message: str) -> None:
    usual = {
        "models": [linear(0), linear(1)],
        "losses": wasserstein(),
        "data": grades(),
        "plan": plan_with(),
    }
    with pytest.raises((ValueError, TypeError), match=message):
        train_many(**(usual | changes))


def test_the_same_model_twice() -> None:
    model = linear()
    with pytest.raises(ValueError, match="objects of their own"):
        train_many([model, model], wasserstein(), grades(), plan_with())


def test_different_numbers_of_examples() -> None:
    few, many = grades(50), grades(60)
    xs, ys = zip(few, many, strict=True)
    with pytest.raises(ValueError, match="as many examples for every model, got 50 and 60"):
        train_many([linear(0), linear(1)], wasserstein(), (xs, ys), plan_with())


def test_costs_that_are_no_metric() -> None:
    cost = torch.tensor([[0.0, 1.0, 4.0], [9.0, 0.5, 1.0], [2.0, 3.0, 0.0]])
    loss_fn = wl.WassersteinLoss(wl.ground.Cost(cost), epsilon=0.1)
    x, y = torch.randn(90, 3), torch.arange(90) % 3
    models, alone = [wl.models.LinearSoftmax(3, 3) for _ in range(2)], wl.models.LinearSoftmax(3, 3)
    for model in models:
        model.load_state_dict(alone.state_dict())
    plan = TrainingPlan(steps=20, batch_size=50, seed=0)
    train(alone, loss_fn, (x, y), plan, progress=False)
    train_many(models, [loss_fn] * 2, (x, y), plan)
    for model in models:
        torch.testing.assert_close(model.linear.weight, alone.linear.weight, rtol=1e-3, atol=1e-4)
