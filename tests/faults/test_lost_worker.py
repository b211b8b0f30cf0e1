"""A worker lost under torchrun: the restarted run resumes from the last checkpoint.

By default the agent of `torchrun` hosts the store in which workers find each other's addresses. It
opens the server in the first rendezvous and keeps it for all later ones
(`DynamicRendezvousHandler.next_rendezvous`), and after a restart workers write to it under the same
names (`_create_c10d_store`, although its comment says that each attempt has its own store). So a
restarted worker that is faster than its peer reads the address of the peer's dead predecessor, and
fails or waits. With TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 the worker of rank 0 hosts the store, on a
new port in each rendezvous, and the store dies with the worker.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.training.problems import perceptron_without_dropout, tags, wasserstein
from wassloss.training import TrainingPlan, load_checkpoint, read_log, train

OWN_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


def torchrun(processes: int, module: str, directory: Path, *, own_store: bool) -> str:
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts=1"]
    done = subprocess.run(
        [*run, f"--nproc-per-node={processes}", "-m", f"tests.faults.{module}", directory],
        cwd=Path(__file__).parents[2],
        env=os.environ | {OWN_STORE: str(int(own_store))},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.slow
def test_an_elastic_restart_continues_from_the_checkpoint(tmp_path: Path) -> None:
    said = torchrun(2, "lost_worker_run", tmp_path, own_store=True)
    assert "Signal 9" in said or "SIGKILL" in said or "exitcode: -9" in said
    # The last checkpoint is at step 15, or at 10 if the kill came while that one was written.
    steps = [int((tmp_path / f"steps-of-{rank}").read_text()) for rank in (0, 1)]
    assert steps in ([15, 15], [20, 20])
    assert [record.step for record in read_log(tmp_path)] == [5, 10, 15, 20, 25, 30]

    plan = TrainingPlan(steps=30, batch_size=30, learning_rate=0.1)
    alone = perceptron_without_dropout()
    train(alone, wasserstein(), tags(), plan)
    together, weights = load_checkpoint(tmp_path).part("model"), dict(alone.state_dict())
    torch.testing.assert_close(together, weights, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_with_a_store_of_their_own_workers_forget_the_addresses_of_the_dead(tmp_path: Path) -> None:
    torchrun(1, "left_behind_run", tmp_path, own_store=True)
    assert (tmp_path / "answer").read_text() == "gone"


@pytest.mark.slow
def test_the_store_of_the_agent_keeps_the_addresses_of_the_dead(tmp_path: Path) -> None:
    # Once this fails, torchrun no longer needs the variable: update docs/training.md.
    torchrun(1, "left_behind_run", tmp_path, own_store=False)
    assert (tmp_path / "answer").read_text() == "left behind"
