"""Two processes under torchrun do what one does with twice the batch size."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.training import processes_run
from tests.training.problems import perceptron_without_dropout, tags, wasserstein
from wassloss.training import TrainingPlan, load_checkpoint, read_log, train

pytest.importorskip("lightning_fabric")
pytest.importorskip("safetensors")


def test_two_processes_are_one_with_twice_the_batch(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    run = subprocess.run(
        [*command, "-m", "tests.training.processes_run", tmp_path],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    checkpoint = load_checkpoint(tmp_path)

    plan = TrainingPlan(steps=30, batch_size=30, learning_rate=0.1, log_every=5, evaluate_every=10)
    alone = perceptron_without_dropout()
    log = train(alone, wasserstein(), tags(), plan, evaluate=processes_run.evaluate)
    weights = dict(alone.state_dict())
    torch.testing.assert_close(checkpoint.part("model"), weights, rtol=1e-4, atol=1e-6)
    logged = read_log(tmp_path)
    # The run was stopped half-way, at 15, and scored there again.
    assert [record.step for record in logged] == [5, 10, 15, 20, 25, 30]
    losses = [record.loss for record in logged]
    assert losses == pytest.approx([record.loss for record in log], rel=1e-4)
    assert logged[-1].score == pytest.approx(log[-1].score, rel=1e-4)
    with pytest.raises(ValueError, match="processes must be the run's own 2 to resume it, got 1"):
        train(
            alone,
            wasserstein(),
            tags(),
            TrainingPlan(steps=30, batch_size=15, learning_rate=0.1),
            directory=tmp_path,
            resume=True,
        )
