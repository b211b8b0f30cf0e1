"""Tensors in files that carry their own sum: the same bytes for the same content."""

import json
from pathlib import Path

import pytest
import torch

import wassloss as wl
from wassloss import files
from wassloss.files import pack_tensors, unpack_tensors

pytest.importorskip("safetensors")

TENSORS = {"b": torch.arange(3.0), "a": torch.eye(2, dtype=torch.float64)}
# Values that look like the sum itself, as names of columns may.
VALUES = {"names": ['"sha256": "' + "0" * 64 + '"}', json.dumps({"sha256": "f" * 64})], "steps": 3}


def test_the_same_content_has_the_same_bytes() -> None:
    assert len({pack_tensors(TENSORS, VALUES) for _ in range(30)}) == 1


def test_content_comes_back() -> None:
    tensors, values = unpack_tensors(pack_tensors(TENSORS, VALUES))
    assert values == VALUES
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


def test_every_flipped_bit_is_noticed() -> None:
    content = pack_tensors(TENSORS, VALUES)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1
        with pytest.raises(ValueError, match="it was changed or truncated after it was written"):
            unpack_tensors(bytes(damaged))


DEEP = "[" * 200_000 + "]" * 200_000


def with_sum(header: bytes) -> bytes:
    """A file of this header, with a sum that fits: whoever makes such a file can compute it."""
    blank = len(header).to_bytes(8, "little") + header
    return blank.replace(b"0" * 64, files._sum(blank))


@pytest.mark.parametrize("where", ["metadata", "header"])
def test_json_without_end_is_refused_by_name(where: str, tmp_path: Path) -> None:
    inside = json.dumps(f'{{"a": {DEEP if where == "metadata" else 1}, "sha256": "{"0" * 64}"}}')
    more = f', "x": {DEEP}' if where == "header" else ""
    path = tmp_path / "model.safetensors"
    path.write_bytes(with_sum(f'{{"__metadata__": {{"wassloss": {inside}}}{more}}}'.encode()))
    for load in (wl.WassersteinClassifier.load, wl.load):
        with pytest.raises(
            ValueError, match=r"model\.safetensors is not a saved .*nested too deep"
        ):
            load(path)


@pytest.mark.parametrize("text", ["[1]", "3", '"x"', "null"])
def test_json_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be an object, got a"):
        files.read_json(text)


def test_tensors_that_lie_about_their_size_are_refused() -> None:
    header = json.dumps(
        {
            "__metadata__": {"wassloss": json.dumps({"a": 1, "sha256": "0" * 64})},
            "x": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]},
        },
        separators=(",", ":"),
    )
    with pytest.raises(ValueError, match=r"."):
        unpack_tensors(with_sum(header.encode()))
