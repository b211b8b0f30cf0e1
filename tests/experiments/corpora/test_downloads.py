"""Downloads of corpora, and instructions for the others."""

from pathlib import Path

import pytest

from experiments import corpora
from experiments.corpora.downloads import BY_HAND, DOWNLOADS


@pytest.mark.parametrize("name", BY_HAND)
def test_what_to_get_by_hand(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASSLOSS_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="no published checksum") as caught:
        corpora.get(name)
    assert f"put these files into {tmp_path / name}: {BY_HAND[name][0]}" in str(caught.value)


def test_what_is_downloaded_is_what_the_loader_looks_for() -> None:
    parts = [f"{p}-{n}-ubyte.gz" for p in ("train", "t10k") for n in ("images-idx3", "labels-idx1")]
    assert list(DOWNLOADS["mnist"].files) == parts


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match="name must be one of mnist, got 'nope'"):
        corpora.get("nope")
