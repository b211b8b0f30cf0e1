"""Numbers in lists that float32 cannot hold: the error names the place and the dtype."""

import pytest

import wassloss as wl


def test_lists() -> None:
    for make in (wl.ground.Ordinal, lambda p: wl.ground.Matrix([[0, p[1]], [p[1], 0]])):
        with pytest.raises(ValueError, match=r"must fit torch.float32, got .*\[.*1\] = 1e\+200"):
            make([0, 1e200])
