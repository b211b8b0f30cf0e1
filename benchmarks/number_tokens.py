"""Time of a step of `NumberTokenLoss` relative to cross-entropy, on one CPU core or a GPU.

    python benchmarks/number_tokens.py docs/benchmarks/number-tokens.json
    python benchmarks/number_tokens.py docs/benchmarks/number-tokens-cuda.json --device cuda

A step computes the loss and its gradient with respect to the logits; on a GPU, a second figure
includes the head and its gradients, as in a training step. Times are the minimum of several runs,
in which the two losses alternate: processor time on a CPU, wall time on a GPU.
"""

from __future__ import annotations

import argparse
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
TOKENS_ON_GPU, FEATURES, REPEATS_ON_GPU = 8192, 2048, 50
CASES = [(10, 0.2), (1110, 0.2), (1110, 1.0)]  # numbers in the vocabulary, share of labels


def problem(numbers: int, share: float, tokens: int = TOKENS) -> tuple[Tensor, Tensor, Tensor]:
    """Values of the words, logits and labels."""
    values = torch.full((WORDS,), torch.nan)
    values[:numbers] = torch.arange(float(numbers))
    target = torch.randint(numbers, WORDS, (tokens,))
    of_numbers = torch.rand(tokens) < share
    target = torch.where(of_numbers, torch.randint(numbers, (tokens,)), target)
    return values, torch.randn(tokens, WORDS), target


def seconds(
    loss: Callable[[Tensor, Tensor], Tensor], inputs: list[Tensor], target: Tensor
) -> float:
    """Seconds per step; `inputs` are the logits, or hidden states and the head's weight."""
    for x in inputs:
        x.grad = None
    on_gpu = target.is_cuda
    if on_gpu:
        torch.cuda.synchronize()
    clock = time.perf_counter if on_gpu else time.process_time
    begin = clock()
    logits = inputs[0] if len(inputs) == 1 else inputs[0] @ inputs[1].T
    loss(logits, target).backward()  # type: ignore[no-untyped-call]
    if on_gpu:
        torch.cuda.synchronize()
    return clock() - begin


def row(
    numbers: int,
    share: float,
    dtype: torch.dtype,
    tokens: int = TOKENS,
    *,
    device: str = "cpu",
    head: bool = False,
) -> dict[str, Any]:
    torch.manual_seed(0)
    values, logits, target = problem(numbers, share, tokens)
    inputs = [torch.randn(n, FEATURES) for n in (tokens, WORDS)] if head else [logits]
    inputs = [x.to(device, dtype).requires_grad_() for x in inputs]
    target = target.to(device)
    losses = {
        "cross_entropy": torch.nn.functional.cross_entropy,
        "ours": wl.NumberTokenLoss(values).to(device),
    }
    repeats = REPEATS if device == "cpu" else REPEATS_ON_GPU
    times = {name: [seconds(loss, inputs, target)] for name, loss in losses.items()}
    for _ in range(repeats - 1):
        for name, loss in losses.items():
            times[name].append(seconds(loss, inputs, target))
    best = {name: min(own) for name, own in times.items()}
    about = {"numbers": numbers, "share": share, "dtype": str(dtype).removeprefix("torch.")}
    return {**about, "head": head, "seconds": best, "ratio": best["ours"] / best["cross_entropy"]}


def main(path: Path, device: str) -> None:
    torch.set_num_threads(1)
    tokens, heads = (TOKENS, (False,)) if device == "cpu" else (TOKENS_ON_GPU, (False, True))
    rows = []
    for case in CASES:
        for dtype in (torch.float32, torch.bfloat16):
            for head in heads:
                rows.append(row(*case, dtype, tokens, device=device, head=head))
                print(rows[-1], flush=True)
    about = {"machine": describe(device), "versions": versions()}
    record = {**about, "tokens": tokens, "words": WORDS, "features": FEATURES, "rows": rows}
    output.write_record(path, record)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the JSON file to write")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    main(arguments.results, arguments.device)
