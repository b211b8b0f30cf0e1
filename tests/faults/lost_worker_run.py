"""The processes of `torchrun` in test_lost_worker.py: one of them is lost, once."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.training.problems import perceptron_without_dropout, tags, wasserstein
from wassloss.training import TrainingPlan, train

LOST_AT = 17  # between checkpoints, so that steps must be repeated


def main(directory: str) -> None:
    torch.set_num_threads(1)
    first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    loss_fn, calls = wasserstein(), 0

    def deadly(outputs: Tensor, target: Any) -> Tensor:
        nonlocal calls
        calls += 1
        if first_life and os.environ["RANK"] == "1" and calls == LOST_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        return loss_fn(outputs, target)

    plan = TrainingPlan(steps=30, batch_size=15, learning_rate=0.1, log_every=5, checkpoint_every=5)
    log = train(
        perceptron_without_dropout(), deadly, tags(), plan, directory=directory, resume=True
    )
    if first_life or log[-1].step != 30:
        raise SystemExit("nobody was lost, or not all steps were taken")
    Path(directory, f"steps-of-{os.environ['RANK']}").write_text(str(calls))


if __name__ == "__main__":
    main(sys.argv[1])
