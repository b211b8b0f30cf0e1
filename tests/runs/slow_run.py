"""A slow run, as a program that tests interrupt, kill, or start twice."""

import sys
from pathlib import Path

import torch

from tests.runs.files import trained


def main(folder: str, out: str, passes: str, resume: str) -> None:
    torch.set_num_threads(1)
    try:
        trained(Path(folder), Path(out), resume=resume == "resume", max_iter=int(passes))
    except (ValueError, OSError) as error:
        sys.exit(f"refused: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
