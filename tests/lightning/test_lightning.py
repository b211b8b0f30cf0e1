"""The Lightning module: scores, checkpoints that resume, and two processes."""

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import wassloss as wl
from tests.problems import LABELS, grades, linear, perceptron, same, tags, wasserstein

lightning = pytest.importorskip("lightning")
torchmetrics = pytest.importorskip("torchmetrics")
from tests.lightning.two_processes import main  # noqa: E402
from wassloss.lightning import WassersteinModule  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec"),  # of torch, about itself
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
    pytest.mark.filterwarnings("ignore:You defined a .validation_step. but have no"),
]
METRIC = wl.ground.Ordinal(LABELS)
SGD = functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)


def trainer(**changes: Any) -> Any:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    how = {"accelerator": "cpu", "devices": 1, "max_epochs": 2, "enable_checkpointing": False}
    return lightning.Trainer(**how | quiet | changes)


def loader(count: int = 90, seed: int = 0, **options: Any) -> Any:
    return DataLoader(TensorDataset(*grades(count, seed)), batch_size=20, **options)


def module(network: nn.Module | None = None, **keywords: Any) -> WassersteinModule:
    network = linear() if network is None else network
    return WassersteinModule(network, wasserstein(), **{"optimizer": SGD} | keywords)


def test_scores_are_those_of_all_examples() -> None:
    made = module(scores=["accuracy", wl.scores.distance_at_k, "brier_score"])
    (found,) = trainer().validate(made, loader(), verbose=False)
    (x, y), network = grades(90), made.network
    logits = network(x).detach()
    metric = made.loss_fn.metric  # type: ignore[union-attr]
    expected = {
        "val_accuracy": wl.scores.accuracy(logits, y),
        "val_distance_at_k": wl.scores.distance_at_k(logits, y, metric),
        "val_brier_score": wl.scores.brier_score(logits.softmax(1), y),
        "val_loss": wasserstein()(logits, y),
    }
    assert found == pytest.approx({name: float(value) for name, value in expected.items()})


def test_any_loss_and_any_metric_of_torchmetrics() -> None:
    made = WassersteinModule(
        perceptron(),
        nn.CrossEntropyLoss(),
        scores={"top2": torchmetrics.Accuracy("multiclass", num_classes=LABELS, top_k=2)},
        scheduler=functools.partial(torch.optim.lr_scheduler.ExponentialLR, gamma=0.5),
    )
    runner = trainer()
    runner.fit(made, loader(), loader(seed=1))
    assert {"val_loss", "val_top2"} <= set(runner.callback_metrics)
    assert runner.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.001 / 4)
    (found,) = runner.test(made, loader(seed=1), verbose=False)
    assert set(found) == {"test_loss", "test_top2"}


def test_weights_of_examples() -> None:
    (x, y), weight = grades(90), torch.arange(90) % 3
    made = module()
    data = DataLoader(TensorDataset(x, y, weight), batch_size=90)
    (found,) = trainer().validate(made, data, verbose=False)
    logits = made.network(x).detach()
    assert found["val_accuracy"] == pytest.approx(
        wl.scores.accuracy(logits, y, sample_weight=weight).item()
    )
    assert found["val_loss"] == pytest.approx(wasserstein()(logits, y, weight).item())


def test_the_progress_bar_shows_losses_and_scores() -> None:
    runner = trainer()
    runner.fit(module(), loader(), loader(seed=1))
    shown = runner.progress_bar_metrics
    wanted = {"train_loss_step", "train_loss_epoch", "val_loss", "val_accuracy"}
    assert wanted | {"val_mean_distance"} <= set(shown)


def test_a_resumed_run_ends_where_an_undisturbed_one_does(tmp_path: Path) -> None:
    whole, first, rest = module(), module(), module(linear(seed=5))
    data = functools.partial(loader, shuffle=False)
    trainer(max_epochs=4).fit(whole, data(), data(seed=1))
    half = trainer(max_epochs=2)
    half.fit(first, data(), data(seed=1))
    half.save_checkpoint(tmp_path / "half.ckpt")
    trainer(max_epochs=4).fit(rest, data(), data(seed=1), ckpt_path=tmp_path / "half.ckpt")
    assert same(rest, whole)
    assert not same(first, whole)


def test_two_processes_find_the_scores_of_one(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    run = subprocess.run(
        [*torchrun, "-m", "tests.lightning.two_processes", "2", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    main(1, str(tmp_path))
    one, two = (json.loads((tmp_path / f"{n}.json").read_text()) for n in (1, 2))
    assert len(one) == 5
    assert two == pytest.approx(one, rel=1e-5)


def test_several_labels_train() -> None:
    x, target = tags(40)
    made = module()
    made.log = lambda *_, **__: None  # type: ignore[method-assign, assignment]
    loss = made.training_step((x, target), 0)
    assert loss.item() == pytest.approx(wasserstein()(made.network(x), target).item())


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"scores": ["kapa"]}, "scores must be names of wassloss.scores, got 'kapa'"),
        ({"scores": "accuracy"}, "scores must be a list of names or functions, got 'accuracy'"),
        ({"scores": [len]}, "function must be a score of wassloss.scores, got len"),
    ],
)
def test_bad_scores(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        module(**keywords)


def test_bad_losses() -> None:
    with pytest.raises(ValueError, match="metric must be given for the score 'mean_distance'"):
        WassersteinModule(linear(), nn.CrossEntropyLoss(), scores=["mean_distance"])
    with pytest.raises(ValueError, match="loss_fn must have reduction=\"mean\", got 'sum'"):
        WassersteinModule(linear(), wasserstein(reduction="sum"))
    made = module()
    with pytest.raises(ValueError, match="must have one dataloader, got several"):
        trainer().validate(made, [loader(), loader()], verbose=False)
