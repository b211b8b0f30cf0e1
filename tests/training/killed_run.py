"""A slow run, as a program for a test to kill."""

import sys
import time
from typing import Any

import torch
from torch import Tensor

from tests.training.problems import perceptron, tags, wasserstein
from wassloss.training import TrainingPlan, train

PLAN = TrainingPlan(
    steps=300,
    batch_size=30,
    optimizer="adam",
    learning_rate=0.01,
    log_every=1,
    checkpoint_every=20,
)


def main(directory: str) -> None:
    torch.set_num_threads(1)
    loss_fn = wasserstein()

    def slow(outputs: Tensor, target: Any) -> Tensor:
        time.sleep(0.01)
        return loss_fn(outputs, target)

    train(perceptron(), slow, tags(), PLAN, directory=directory)


if __name__ == "__main__":
    main(sys.argv[1])
