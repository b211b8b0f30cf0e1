"""Files that carry their own sum: the same bytes for the same content, whatever it contains."""

import json

import pytest
import torch

from wassloss._sealed import sealed, sealed_tensors, unsealed, unsealed_tensors

pytest.importorskip("safetensors")

TENSORS = {"b": torch.arange(3.0), "a": torch.eye(2, dtype=torch.float64)}
# Values that look like the sum itself, as names of columns may.
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
