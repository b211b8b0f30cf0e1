"""Time of a step of `NumberTokenLoss` over that of cross-entropy, on one CPU core.

    python benchmarks/number_tokens.py docs/benchmarks/number-tokens.json

A step is the loss and the gradient in the logits. Times are those of the process, the least of
several; the two losses take turns.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import output
import torch
from machine import describe, versions
from torch import Tensor

import wassloss as wl

TOKENS, WORDS, REPEATS = 2048, 32_000, 9
CASES = [(10, 0.2), (1110, 0.2), (1110, 1.0)]  # numbers among the words, and among the labels


def problem(numbers: int, share: float, tokens: int = TOKENS) -> tuple[Tensor, Tensor, Tensor]:
    """Values of the words, logits and labels."""
    values = torch.full((WORDS,), torch.nan)
    values[:numbers] = torch.arange(float(numbers))
    target = torch.randint(numbers, WORDS, (tokens,))
    of_numbers = torch.rand(tokens) < share
    target = torch.where(of_numbers, torch.randint(numbers, (tokens,)), target)
    return values, torch.randn(tokens, WORDS), target


def seconds(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, target: Tensor) -> float:
    logits.grad = None
    begin = time.process_time()
    loss(logits, target).backward()  # type: ignore[no-untyped-call]
    return time.process_time() - begin


def row(numbers: int, share: float, dtype: torch.dtype, tokens: int = TOKENS) -> dict[str, Any]:
    torch.manual_seed(0)
    values, logits, target = problem(numbers, share, tokens)
    logits = logits.to(dtype).requires_grad_()
    losses = {
        "cross_entropy": torch.nn.functional.cross_entropy,
        "ours": wl.NumberTokenLoss(values),
    }
    times = {name: [seconds(loss, logits, target)] for name, loss in losses.items()}
    for _ in range(REPEATS - 1):
        for name, loss in losses.items():
            times[name].append(seconds(loss, logits, target))
    best = {name: min(own) for name, own in times.items()}
    about = {"numbers": numbers, "share": share, "dtype": str(dtype).removeprefix("torch.")}
    return {**about, "seconds": best, "ratio": best["ours"] / best["cross_entropy"]}


def main(path: Path) -> None:
    torch.set_num_threads(1)
    rows = []
    for case in CASES:
        for dtype in (torch.float32, torch.bfloat16):
            rows.append(row(*case, dtype))
            print(rows[-1], flush=True)
    about = {"machine": describe("cpu"), "versions": versions()}
    record = {**about, "tokens": TOKENS, "words": WORDS, "rows": rows}
    output.write(path, json.dumps(record, indent=1).encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
