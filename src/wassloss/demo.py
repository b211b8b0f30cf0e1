"""KL alone against W + α KL on the built-in clip art, with settings chosen on validation data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from wassloss.data import clipart
from wassloss.report import Comparison, build_report, write_report
from wassloss.runs.directory import CONFIG, clear
from wassloss.runs.evaluation import MEANING, ExampleScores
from wassloss.runs.fitting import fit
from wassloss.runs.settings import Settings
from wassloss.runs.trained import open_run
from wassloss.scores import paired_difference
from wassloss.training.directory_lock import owned

KL, W = "KL alone", "W + α KL"
# The best of 20 settings for each loss: python -m experiments.studies.demo_settings
_CHOSEN = {
    KL: {"loss": "kl", "learning_rate": 0.016, "weight_decay": 0.008},
    W: {
        "learning_rate": 0.01,
        "weight_decay": 0.004,
        "power": 2.0,
        "epsilon": 0.2,
        "kl_weight": 0.1,
    },
}


def run_demo(
    out: Path, seeds: int, quick: bool, say: Callable[[str], None]
) -> tuple[Comparison, Path]:
    """Train with both losses and several seeds, and compare them on the test part.

    Each seed draws its own validation split, initial weights and order of examples. Runs of an
    earlier demonstration in `out` are replaced.

    Returns:
        The table, and the page with the runs of the first seed.
    """
    found: dict[str, list[ExampleScores]] = {}
    for name, short in ((KL, "kl"), (W, "wasserstein")):
        say(f"{name}: training {_count(seeds)}")
        settings = _settings(name, quick)
        found[name] = [
            _run(replace(settings, seed=seed), out / f"{short}-{seed}") for seed in range(seeds)
        ]
    comparison = _compare(found, seeds)
    if quick:
        comparison.notes.insert(0, "A quick run, to see that it works: these are not results.")
    say("writing the report")
    first = [open_run(out / name) for name in ("kl-0", "wasserstein-0")]
    write_report(build_report(first, comparison=comparison), out / "report.html")
    return comparison, out / "report.html"


def _settings(name: str, quick: bool) -> Settings:
    return Settings(
        "clipart",
        validation=0.2,
        steps=60 if quick else 800,
        evaluate_every=20 if quick else 40,
        patience=2 if quick else 5,
        score="top5_cost",
        **_CHOSEN[name],  # type: ignore[arg-type]
    )


def _run(settings: Settings, path: Path) -> ExampleScores:
    """A run in a directory, and its scores on the test part."""
    if not (path / CONFIG).exists() and path.is_dir() and any(path.iterdir()):
        raise ValueError(f"{path} is not empty and holds no run: choose another directory (out)")
    with owned(path):
        if (path / CONFIG).exists():  # of an earlier demonstration
            clear(path)
        found = fit(settings, path, progress=False).scores
    if found is None:
        raise ValueError("clip art must have a test part, got none: its file is not the package's")
    return found


def _compare(found: dict[str, list[ExampleScores]], seeds: int) -> Comparison:
    data = clipart()
    test = data.part("test")
    groups = None if test.groups is None else test.groups.numpy()
    rows = []
    for name, (more, _) in MEANING.items():
        pairs = zip(found[KL], found[W], strict=True)
        gap = paired_difference([w.values[name] - kl.values[name] for kl, w in pairs], groups)
        cells = [_mean([run.mean(name) for run in found[loss]]) for loss in (KL, W)]
        interval = f"[{gap.low:+.3f}, {gap.high:+.3f}]"
        arrow = "↑" if more else "↓"
        rows.append([f"{name} {arrow}", *cells, f"{gap.mean:+.3f}", interval, gap.verdict(more)])
    return Comparison(
        title="KL alone against W + α KL",
        header=["score", KL, W, "W − KL", "95 % interval", "W is"],
        rows=rows,
        notes=[
            f"A linear model on {data.label_count} tags of clip art; scores on {len(test)} unseen "
            f"drawings, mean ± standard deviation over {_count(seeds)}. ↓ lower is better, ↑ "
            "higher is better.",
            "The interval is for the mean difference on the same drawings, over drawings (variants "
            "of one counted together) and seeds; “unclear” means that it includes 0. It is not "
            "corrected for looking at several scores.",
            "The rest of the report shows the first seed.",
            "Learning rate, weight decay, power, ε and α were chosen by the top-5 cost on a "
            "validation split, from 20 settings for each loss.",
        ],
    )


def _mean(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"


def _count(seeds: int) -> str:
    return "1 seed" if seeds == 1 else f"{seeds} seeds"
