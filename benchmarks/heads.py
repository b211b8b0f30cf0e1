"""Time and memory of the loss of a language model's head, forward and backward, on a GPU.

    python benchmarks/heads.py docs/benchmarks/heads.json          # measure; needs a GPU
    python benchmarks/heads.py --draw docs/benchmarks/heads.json   # draw heads.png next to it

Memory is the peak minus what was allocated before and the gradients of hidden states and
weight. The error is that of these gradients relative to the same loss in float32, in the l2
norm.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

import output
import torch
from machine import describe, versions
from torch import Tensor

import wassloss as wl

FEATURES = 4096
WORDS = (32_000, 128_256)
TOKENS = (1024, 2048, 4096, 8192, 16_384)
CHECKED = (1024, 4096, 16_384)  # numbers of tokens at which errors are computed
REPEATS = 9
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def cross_entropy(hidden: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(hidden @ weight.T, target)


def liger(words: int) -> Loss:
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    return lambda *given: LigerFusedLinearCrossEntropyFunction.apply(*given)[0]


def cut_cross_entropy(words: int) -> Loss:
    from cut_cross_entropy import linear_cross_entropy

    return linear_cross_entropy


def ours(dimensions: int | None, stored: bool = False, **keywords: Any) -> Callable[[int], Loss]:
    def make(words: int) -> Loss:
        torch.manual_seed(1)
        metric: wl.ground.GroundMetric = wl.ground.Ordinal(words)
        if dimensions is not None:
            metric = wl.ground.Embedding(torch.randn(words, dimensions))
        metric = metric.to("cuda")
        if not stored:
            return wl.LinearWassersteinLoss(metric, **keywords)
        whole = wl.WassersteinLoss(metric)
        return lambda hidden, weight, target: whole(hidden @ weight.T, target)

    return make


CONTENDERS: dict[str, Callable[[int], Loss]] = {
    "torch cross-entropy": lambda words: cross_entropy,
    "Liger fused cross-entropy": liger,
    "cut cross-entropy": cut_cross_entropy,
    "WassersteinLoss, logits stored": ours(None, stored=True),
    "wassloss, Ordinal": ours(None),
    "wassloss, Embedding 64": ours(64),
    "wassloss, Embedding 300": ours(300),
    "wassloss, Ordinal, chunks of 512 MiB": ours(None, chunk_bytes=2**29),
}
REFERENCES = {
    "WassersteinLoss, logits stored": ours(None, stored=True),
    "wassloss, Ordinal": ours(None, stored=True),
    "wassloss, Ordinal, chunks of 512 MiB": ours(None, stored=True),
    "wassloss, Embedding 64": ours(64, stored=True),
    "wassloss, Embedding 300": ours(300, stored=True),
}


def problem(tokens: int, words: int) -> list[Tensor]:
    torch.manual_seed(0)
    hidden = torch.randn(tokens, FEATURES, device="cuda").bfloat16().requires_grad_()
    weight = (0.02 * torch.randn(words, FEATURES, device="cuda")).bfloat16().requires_grad_()
    return [hidden, weight, torch.randint(words, (tokens,), device="cuda")]


def step(loss: Loss, given: list[Tensor]) -> None:
    given[0].grad = given[1].grad = None
    loss(*given).backward()  # type: ignore[no-untyped-call]


def measure(loss: Loss, given: list[Tensor]) -> dict[str, Any]:
    for _ in range(3):
        step(loss, given)
    given[0].grad = given[1].grad = None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated() + sum(2 * x.numel() for x in given[:2])
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        step(loss, given)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    peak = torch.cuda.max_memory_allocated() - before
    return {"milliseconds": median(times), "all_milliseconds": times, "megabytes": peak / 1e6}


def gradient_error(loss: Loss, reference: Loss, given: list[Tensor]) -> dict[str, float]:
    step(loss, given)
    wide = [x.detach().float().requires_grad_() for x in given[:2]]
    step(reference, [*wide, given[2]])
    pairs = zip(("hidden", "weight"), given, wide, strict=False)
    return {
        f"error_{name}": float((x.grad - y.grad).norm() / y.grad.norm())  # type: ignore[operator, union-attr]
        for name, x, y in pairs
    }


def row(name: str, tokens: int, words: int) -> dict[str, Any]:
    found: dict[str, Any] = {"contender": name, "tokens": tokens, "words": words}
    try:
        loss, given = CONTENDERS[name](words), problem(tokens, words)
        found |= measure(loss, given)
        if tokens in CHECKED:
            reference = REFERENCES.get(name, lambda words: cross_entropy)(words)
            found |= gradient_error(loss, reference, given)
    except Exception as failure:  # a failure of another library is a result
        if name.startswith("wassloss"):
            raise
        found["not_run"] = f"{type(failure).__name__}: {failure}".splitlines()[0][:200]
    finally:
        torch.cuda.empty_cache()
    return found


def run(path: Path) -> None:
    rows = []
    for words in WORDS:
        for tokens in TOKENS:
            for name in CONTENDERS:
                rows.append(row(name, tokens, words))
                shown = {k: v for k, v in rows[-1].items() if k != "all_milliseconds"}
                print(
                    *(f"{v:.4g}" if isinstance(v, float) else v for v in shown.values()), sep=", "
                )
            peers = {p: metadata.version(p) for p in ("liger-kernel", "cut-cross-entropy")}
            about = {"machine": describe("cuda"), "versions": versions() | peers}
            record = {**about, "features": FEATURES, "dtype": "bfloat16", "rows": rows}
            output.write_record(path, record)


def draw(results: dict[str, Any]) -> bytes:
    """Draw time and memory against the number of tokens, one column per vocabulary size."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullLocator

    words = sorted({row["words"] for row in results["rows"]})
    figure, axes = plt.subplots(2, len(words), figsize=(10, 7.4), sharex=True, squeeze=False)
    names = list(dict.fromkeys(row["contender"] for row in results["rows"]))
    colours = dict(zip(names, plt.get_cmap("tab10").colors, strict=False))  # type: ignore[attr-defined]
    for column, count in enumerate(words):
        for line, (key, label) in enumerate((("milliseconds", "ms"), ("megabytes", "MB"))):
            ax = axes[line][column]
            for name in names:
                own = [
                    (row["tokens"], row[key])
                    for row in results["rows"]
                    if row["contender"] == name and row["words"] == count and key in row
                ]
                if not own:
                    continue
                style = "o-" if name.startswith("wassloss") else "o--"
                ax.plot(
                    *zip(*own, strict=True), style, color=colours[name], label=name, markersize=4
                )
            ax.set(xscale="log", yscale="log", ylabel=label)
            ax.yaxis.set_major_locator(
                LogLocator(subs=(1, 2, 5) if key == "milliseconds" else (1,))
            )
            ax.yaxis.set_major_formatter(lambda y, _: f"{y:,g}")
            ax.yaxis.set_minor_locator(NullLocator())
            ax.grid(axis="y", color="#e4e4e4", linewidth=0.8)
            ax.spines[["top", "right"]].set_visible(False)
        axes[0][column].set_title(f"{count:,} words", fontsize=11)
        ticks = sorted({row["tokens"] for row in results["rows"]})
        axes[1][column].set_xticks(ticks, [f"{t:,}" for t in ticks], minor=False)
        axes[1][column].set_xticks([], minor=True)
        axes[1][column].set_xlabel("tokens")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, ncol=4, loc="lower center", fontsize=9, frameon=False)
    about = f"{results['machine']['gpu']}, {results['features']} features, {results['dtype']}"
    figure.suptitle(
        f"Loss and gradients of a language model's head: time, and memory beyond inputs and "
        f"gradients; {about}",
        fontsize=10,
    )
    figure.subplots_adjust(left=0.08, right=0.98, top=0.91, bottom=0.15, hspace=0.08, wspace=0.18)
    plt.close(figure)
    return output.png(figure, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the JSON file to write, or to draw")
    parser.add_argument("--draw", action="store_true", help="draw an existing JSON file")
    arguments = parser.parse_args()
    if arguments.draw:
        picture = draw(json.loads(arguments.results.read_text()))
        output.write(arguments.results.with_suffix(".png"), picture)
    else:
        run(arguments.results)
