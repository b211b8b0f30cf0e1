"""A run that takes long, as a program that tests stop, kill, or start twice."""

import sys

import torch

from wassloss.runs.fitting import fit
from wassloss.runs.settings import Settings


def main(data: str, metric: str, out: str, steps: str, resume: str) -> None:
    torch.set_num_threads(1)
    settings = Settings(
        data,
        metric=metric,
        loss="kl",
        steps=int(steps),
        batch_size=10,
        log_every=1,
        checkpoint_every=100,
    )
    try:
        fit(settings, out, resume=resume == "resume", progress=False)
    except (ValueError, OSError) as error:
        sys.exit(f"refused: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
