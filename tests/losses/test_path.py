"""How many files a batch passes on its way to a loss: each is one more for a reader to open."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import wassloss as wl
from wassloss.kernels import launch

HOME = Path(wl.__file__).parent


@pytest.mark.skipif(not launch.HAS_NUMBA, reason="needs Numba")
def test_class_ids_pass_at_most_eight_files() -> None:
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(10), kl_weight=0.0, own_units=True)
    logits, target = torch.randn(32, 10, requires_grad=True), torch.randint(10, (32,))
    loss_fn(logits, target)  # compiles, and fills the caches
    files: set[str] = set()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        path = Path(frame.f_code.co_filename)
        compiled = "numba" in path.parts  # where the way ends: Numba reports its kernels too
        if event == "call" and HOME in path.parents and not compiled:
            files.add(str(path.relative_to(HOME)))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        loss_fn(logits, target)
    finally:
        sys.setprofile(before)
    assert len(files) <= 8, sorted(files)
    assert not any(name.startswith("transport") for name in files)  # nothing is solved
