"""Content that carries its own SHA-256 sum, so that a single changed bit is noticed.

JSON by itself, or tensors with JSON in one safetensors file; nothing is ever unpickled. The sum is
that of all bytes, with zeros in place of the sum itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

_BLANK = b"0" * 64
_AT_THE_END = re.compile(rb'"sha256": "([0-9a-f]{64})"\n}\n\Z')
# The last field of the one entry of metadata, a string of JSON. Its quotes are escaped once, those
# of names and labels inside it more often.
_IN_THE_HEADER = re.compile(rb'\\"sha256\\": \\"([0-9a-f]{64})\\"}"')


def sealed(values: dict[str, Any]) -> bytes:
    """JSON whose last field is its sum.

    >>> unsealed(sealed({"steps": 3}))
    {'steps': 3}
    """
    text = json.dumps({**values, "sha256": _BLANK.decode()}, indent=1) + "\n"
    return _with_sum(text.encode(), _AT_THE_END)


def unsealed(content: bytes) -> dict[str, Any]:
    """The values that `sealed` was given; ValueError if the content has changed since."""
    _check_sum(content, _AT_THE_END)
    values = read_json(content)
    del values["sha256"]
    return values


def read_json(text: str | bytes) -> dict[str, Any]:
    """An object in JSON; ValueError for anything else, also for what is nested too deep to read."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("its JSON is nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError(f"its JSON must be an object, got a {type(found).__name__}")
    return found


def sealed_tensors(tensors: dict[str, Tensor], values: dict[str, Any]) -> bytes:
    """Tensors and JSON as the content of one safetensors file."""
    # Copies, because safetensors refuses tensors that share memory, as tied weights do.
    copies = {name: t.detach().cpu().clone().contiguous() for name, t in tensors.items()}
    # One entry only: safetensors writes several in an order of its own, another one each time.
    metadata = {"wassloss": json.dumps({**values, "sha256": _BLANK.decode()})}
    return _with_sum(import_safetensors().torch.save(copies, metadata), _IN_THE_HEADER)


def unsealed_tensors(content: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `sealed_tensors` was given, on the CPU; ValueError if the content is anything else."""
    safetensors = import_safetensors()
    _check_sum(content, _IN_THE_HEADER)
    header = read_json(content[8 : 8 + int.from_bytes(content[:8], "little")])
    values = read_json(header["__metadata__"]["wassloss"])
    del values["sha256"]
    return safetensors.torch.load(content), values


def import_safetensors() -> Any:
    """The package with its functions for torch; part of an extra, so imported when first used."""
    try:
        import safetensors.torch
    except ImportError as error:
        raise ImportError("files of models need safetensors: pip install safetensors") from error
    return safetensors


def _with_sum(blank: bytes, place: re.Pattern[bytes]) -> bytes:
    found = place.search(blank)
    if found is None:  # pragma: no cover - only another safetensors could write it otherwise
        raise RuntimeError("safetensors wrote its metadata in an unknown form")
    return blank[: found.start(1)] + _sum(blank) + blank[found.end(1) :]


def _check_sum(content: bytes, place: re.Pattern[bytes]) -> None:
    found = place.search(content)
    if found is not None:
        blank = content[: found.start(1)] + _BLANK + content[found.end(1) :]
        if _sum(blank) == found[1]:
            return
    raise ValueError("it is not as it was written")


def _sum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
