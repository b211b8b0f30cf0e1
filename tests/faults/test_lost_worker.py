"""A worker lost under torchrun: the restarted run goes on from the last checkpoint."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.training.problems import perceptron_without_dropout, tags, wasserstein
from wassloss.training import SGD, TrainingPlan, load_model, read_log, train


@pytest.mark.slow
def test_an_elastic_restart_continues_from_the_checkpoint(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    run = subprocess.run(
        [*command, "--max-restarts=1", "-m", "tests.faults.lost_worker_run", tmp_path],
        cwd=Path(__file__).parents[2],
        # Else a restarted worker may find the address of a dead one in the agent's store.
        env=os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert run.returncode == 0, run.stderr
    assert "Signal 9" in run.stderr or "SIGKILL" in run.stderr or "exitcode: -9" in run.stderr
    # The last checkpoint is of 15, or of 10 where the kill came while that one was written.
    steps = [int((tmp_path / f"steps-of-{rank}").read_text()) for rank in (0, 1)]
    assert steps in ([15, 15], [20, 20])
    assert [record.iteration for record in read_log(tmp_path)] == [5, 10, 15, 20, 25, 30]

    plan = TrainingPlan(iterations=30, batch_size=30, optimizer=SGD(0.1))
    alone = perceptron_without_dropout()
    train(alone, wasserstein(), tags(), plan)
    together = load_model(tmp_path)
    torch.testing.assert_close(together.state_dict(), alone.state_dict(), rtol=1e-4, atol=1e-6)
