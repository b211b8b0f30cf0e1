"""The processes of `torchrun` in test_processes.py."""

import sys
from pathlib import Path

import torch

from tests.training.problems import perceptron_without_dropout, tags, wasserstein
from wassloss.training import TrainingPlan, train


def evaluate(model: torch.nn.Module) -> torch.Tensor:
    x, target = tags(seed=1)
    return wasserstein()(model(x), target)


def main(directory: str) -> None:
    torch.set_num_threads(1)
    folder = Path(directory)
    changes = {"batch_size": 15, "log_every": 5, "checkpoint_every": 10, "evaluate_every": 10}
    half, whole = (
        TrainingPlan(steps=n, learning_rate=0.1, **changes)  # type: ignore[arg-type]
        for n in (15, 30)
    )
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else None
    model = perceptron_without_dropout(seed=rank or 0)
    train(model, wasserstein(), tags(), half, evaluate=evaluate, directory=folder)
    model = perceptron_without_dropout(seed=5)
    log = train(
        model, wasserstein(), tags(), whole, evaluate=evaluate, directory=folder, resume=True
    )
    if torch.distributed.get_world_size() != 2 or log[-1].step != 30:
        raise SystemExit("not two processes, or not all steps")


if __name__ == "__main__":
    main(sys.argv[1])
