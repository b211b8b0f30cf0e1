"""Files with a checksum: the same content gives the same bytes."""

import json
from pathlib import Path

import pytest
import torch

import wassloss as wl
from wassloss import _sealed
from wassloss._sealed import sealed, sealed_tensors, unsealed, unsealed_tensors

pytest.importorskip("safetensors")

TENSORS = {"b": torch.arange(3.0), "a": torch.eye(2, dtype=torch.float64)}
# Values that look like the checksum itself, as column names may.
VALUES = {"names": ['"sha256": "' + "0" * 64 + '"}', json.dumps({"sha256": "f" * 64})], "steps": 3}


def test_the_same_content_has_the_same_bytes() -> None:
    assert len({sealed_tensors(TENSORS, VALUES) for _ in range(30)}) == 1


def test_content_comes_back() -> None:
    tensors, values = unsealed_tensors(sealed_tensors(TENSORS, VALUES))
    assert values == VALUES
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    assert unsealed(sealed(VALUES)) == VALUES


def test_every_flipped_bit_is_noticed() -> None:
    content = sealed_tensors(TENSORS, VALUES)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1
        with pytest.raises(ValueError, match="not as it was written"):
            unsealed_tensors(bytes(damaged))


DEEP = "[" * 200_000 + "]" * 200_000


@pytest.mark.parametrize("where", ["values", "metadata", "header"])
def test_json_without_end_is_refused_by_name(where: str, tmp_path: Path) -> None:
    """The checksum matches, because an attacker can compute it."""
    if where == "values":
        blank = f'{{"a": {DEEP},\n "sha256": "{"0" * 64}"\n}}\n'.encode()
        with pytest.raises(ValueError, match="nested too deep"):
            unsealed(_sealed._with_sum(blank, _sealed._AT_THE_END))
        return
    inside = json.dumps(f'{{"a": {DEEP if where == "metadata" else 1}, "sha256": "{"0" * 64}"}}')
    more = f', "x": {DEEP}' if where == "header" else ""
    header = f'{{"__metadata__": {{"wassloss": {inside}}}{more}}}'.encode()
    blank = len(header).to_bytes(8, "little") + header
    path = tmp_path / "model.safetensors"
    path.write_bytes(_sealed._with_sum(blank, _sealed._IN_THE_HEADER))
    with pytest.raises(ValueError, match=r"model\.safetensors is not a saved .*nested too deep"):
        wl.WassersteinClassifier.load(path)


@pytest.mark.parametrize("text", ["[1]", "3", '"x"', "null"])
def test_json_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be an object, got a"):
        _sealed.read_json(text)
