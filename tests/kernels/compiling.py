"""Compile Triton's kernels for a GPU, without one, outside the interpreter."""

import os
import subprocess
import sys
from pathlib import Path


def output_of(script: str, cache: Path) -> str:
    """Return what a script that compiles kernels prints; it must succeed."""
    environment = {name: x for name, x in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment | {"TRITON_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
