"""JSON that carries its own SHA-256 sum, so that a single changed bit is noticed."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

_BLANK = "0" * 64
_SUM = re.compile(rb'"sha256": "([0-9a-f]{64})"\n}\n\Z')


def sealed(values: dict[str, Any]) -> bytes:
    r"""JSON whose last field, ``sha256``, is the sum of the text with zeros in place of the sum.

    >>> unsealed(sealed({"steps": 3}))
    {'steps': 3}
    """
    text = json.dumps({**values, "sha256": _BLANK}, indent=1) + "\n"
    head, _, tail = text.rpartition(_BLANK)
    return f"{head}{hashlib.sha256(text.encode()).hexdigest()}{tail}".encode()


def unsealed(content: bytes) -> dict[str, Any]:
    """The values that `sealed` was given.

    Raises:
        ValueError: the content is not as it was written.
    """
    found = _SUM.search(content)
    if found is not None:
        blank = content[: found.start(1)] + _BLANK.encode() + content[found.end(1) :]
        if hashlib.sha256(blank).hexdigest().encode() == found[1]:
            values: dict[str, Any] = json.loads(content)
            del values["sha256"]
            return values
    raise ValueError("it is not as it was written")
