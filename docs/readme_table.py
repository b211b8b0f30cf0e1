"""The README's tables of alternatives, from the JSON of experiments and benchmarks.

`python docs/readme_table.py` prints them, and `--write` puts them into the README. A test compares
the two, so that the README follows new benchmark results.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
END = "<!-- end -->"

SPARSE = "entropic: K=1000 B=100 s=5 ε=0.02"
SOLVE = f"{SPARSE} float64 tol=1e-06"
MACHINES = {"2-core CPU": "cpu.json", "H200": "cuda.json"}
LIBRARIES = {
    "POT": "the reference for optimal transport of every kind",
    "OTT": "JAX; large single problems, low rank, Gromov-Wasserstein",
    "GeomLoss": "point clouds and images of millions of points",
}
NETWORKS = {
    "tiny-imagenet-450": "Tiny ImageNet, 450 images per class, ResNet-18",
    "tiny-imagenet-50": "Tiny ImageNet, 50 images per class, ResNet-18",
    "definitions-transformer": "10 000 of WordNet's definitions, transformer",
    "definitions-3000": "3000 of them, bag of words",
    "definitions-10000": "10 000, bag of words",
    "definitions-40000": "40 000, bag of words",
}
LOSSES = {  # as the experiment calls them, and what one would write
    "ce": "`CrossEntropyLoss()`",
    "least cost: ce": "`CrossEntropyLoss()`, then `least_cost_label`",
    "smoothing": "`CrossEntropyLoss(label_smoothing=…)`",
    "corn": "CORN",
    "emd2": "squared EMD + KL",
    "ridge": "ridge regression, rounded",
    "soft": "soft labels: `transport_weight=0, softening=…`",
    "expected": 'expected cost + KL: `regularizer="product"`',
    "w": "**`WassersteinLoss(metric)`**",
    "least cost: w": "**`WassersteinLoss(metric)`, then `least_cost_label`**",
}


def group_of(results: dict[str, Any], title: str) -> dict[str, Any]:
    return next(group for group in results["groups"] if group["title"].startswith(title))


def median(measurement: dict[str, Any]) -> float:
    return statistics.median(measurement["seconds"]) if measurement["seconds"] else math.inf


def number(ratio: float) -> str:
    """Two significant digits, because these are timings."""
    return f"{float(f'{ratio:.2g}'):,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def times(results: dict[str, Any], title: str, library: str, *, by_hand: bool) -> str:
    """The fastest call of the library that reaches the tolerance, relative to our time."""
    group = group_of(results, title)
    measured = {m["contender"]: m for m in group["measurements"]}
    # Most libraries stop by the ℓ2 norm; the ℓ1 error may be larger by this factor.
    enough = group["case"]["tol"] * math.sqrt(group["case"]["labels"])
    tried = [
        m
        for name, m in measured.items()
        if name.startswith(library) and name.endswith("support only") == by_hand
    ]
    if not tried:
        return "not run"
    reached = [median(m) for m in tried if not m["stopped_after"] and (m["error"] or 1) <= enough]
    if not reached and any(m["stopped_after"] for m in tried):
        return f"not in {group.get('limit_seconds', results['limits']['seconds']):g} s"
    if not reached:
        return "not reached"
    return f"{number(min(reached) / median(measured['wassloss']))} ×"


def both(results: dict[str, Any], title: str, library: str) -> str:
    whole, by_hand = (times(results, title, library, by_hand=hand) for hand in (False, True))
    neither = whole == by_hand and "×" not in whole
    return f"{whole}, nor by hand" if neither else f"{whole}; by hand {by_hand}"


def networks() -> list[str]:
    """What swapping the loss did: bold is better, and italic worse, outside the interval."""
    found = json.loads((HERE / "results" / "networks.json").read_text())["found"]["untouched"]
    lines = [
        "| cross-entropy → Wasserstein | mean distance | accuracy | NLL | calibration error |",
        "| --- | --- | --- | --- | --- |",
    ]
    for key, name in NETWORKS.items():
        of = found[key]

        def shown(score: str, form: str, unit: float = 1, of: dict[str, Any] = of) -> str:
            before, after = (mean_of(of, loss, score) or 0.0 for loss in ("ce", "default"))
            gap = of["differences"]["default − ce"].get(score, {"low": 0.0, "high": 0.0})
            low, high = sorted(
                (1 if score == "right" else -1) * gap[end] for end in ("low", "high")
            )
            mark = "**" if low > 0 else "*" if high < 0 else ""
            return f"{form.format(unit * before)} → {mark}{form.format(unit * after)}{mark}"

        cells = [
            shown("distance", "{:.2f}"),
            shown("right", "{:.1f} %", unit=100),
            shown("nll", "{:.2f}"),
            shown("ece", "{:.3f}"),
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def training() -> list[str]:
    """Networks, losses tuned alike: how long a step takes, and medians of what is gained."""
    tuned = json.loads((HERE / "results" / "networks.json").read_text())["found"]["tuned"]
    found = {name: of for name, of in tuned.items() if not name.endswith("-linear")}
    kinds = Counter(each["kind"] for each in found.values())
    lines = [
        f"| loss | training step | mean distance, {kinds['taxonomy']} taxonomies "
        f"| mean distance, {kinds['ordered']} ordered | accuracy | NLL |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for key, name in LOSSES.items():
        cells = [
            over_sets(found, ("taxonomy", "ordered"), key, step, "{:.1f} ×"),
            over_sets(found, ("taxonomy",), key, relative("distance"), "{:+.1f} %"),
            over_sets(found, ("ordered",), key, relative("distance"), "{:+.1f} %"),
            over_sets(found, ("taxonomy", "ordered"), key, more_right, "{:+.1f}"),
            over_sets(found, ("taxonomy", "ordered"), key, relative("nll"), "{:+.1f} %"),
        ]
        shown = ["1", "0", "0", "0", "0"] if key == "ce" else cells
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return lines


Of = Callable[[dict[str, Any], str], float | None]


def over_sets(found: dict[str, Any], kinds: tuple[str, ...], loss: str, of: Of, form: str) -> str:
    """The median over the sets of these kinds that the loss was trained on."""
    values = [
        value
        for each in found.values()
        if each["kind"] in kinds and loss in each["scores"]
        if (value := of(each, loss)) is not None
    ]
    return form.format(statistics.median(values)).replace("-0.0", "+0.0") if values else ""


def step(of: dict[str, Any], loss: str) -> float | None:
    """The time of a training step, relative to cross-entropy's; a regression has no steps."""
    return of["milliseconds"][loss] / of["milliseconds"]["ce"] or None


def relative(score: str) -> Of:
    """The change of a score against cross-entropy's, in per cent."""

    def change(of: dict[str, Any], loss: str) -> float | None:
        own, before = (mean_of(of, key, score) for key in (loss, "ce"))
        return own and before and 100 * (own / before - 1)

    return change


def more_right(of: dict[str, Any], loss: str) -> float | None:
    """Right answers more than cross-entropy's, in points."""
    own, before = (mean_of(of, key, "right") for key in (loss, "ce"))
    return None if own is None or before is None else 100 * (own - before)


def mean_of(of: dict[str, Any], loss: str, score: str) -> float | None:
    """A score of a loss over the seeds, if it has it."""
    scores, decided = of["scores"][loss], f"least cost: {score}"
    found = scores.get(decided if loss.startswith("least cost") and decided in scores else score)
    return statistics.fmean(found) if found else None


def solving() -> list[str]:
    """Libraries: how long each takes to the same error."""
    runs = [json.loads((HERE / "benchmarks" / file).read_text()) for file in MACHINES.values()]
    lines = [
        "| library | when | "
        + " | ".join(f"time to solve over ours, {where}" for where in MACHINES)
        + " |",
        "| --- | --- | ---: | ---: |",
    ]
    for library, purpose in LIBRARIES.items():
        cells = [both(run, SOLVE, library) for run in runs]
        lines.append(f"| {library} | {purpose} | {' | '.join(cells)} |")
    return lines


def tables(text: str) -> str:
    """The README with its tables replaced."""
    made = {"networks": networks(), "training": training(), "solving": solving()}
    for name, lines in made.items():
        begin = f"<!-- made by docs/readme_table.py: {name} -->"
        start = text.index(begin) + len(begin)
        end = text.index(END, start)
        text = "\n".join([text[:start], *lines, text[end:]])
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put them into the README")
    if not parser.parse_args().write:
        print("\n".join([*networks(), "", *training(), "", *solving()]))
        return
    partial = README.with_suffix(".partial")
    partial.write_text(tables(README.read_text()))
    partial.replace(README)


if __name__ == "__main__":
    main()
