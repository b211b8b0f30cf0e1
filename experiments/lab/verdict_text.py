"""Text of verdicts: means, differences with their intervals, trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def mean_of(runs: Sequence[Mapping[str, Any]], name: str) -> float:
    """The mean of a score over runs."""
    return float(sum(run[name] for run in runs) / len(runs))


def interval(gap: Mapping[str, float]) -> str:
    """Format a difference with its interval."""
    return f"{gap['mean']:+.4f} [{gap['low']:+.4f}, {gap['high']:+.4f}]"


def described(trial: Mapping[str, Any]) -> str:
    """Describe a trial in words."""
    names = {
        "loss": "{}", "power": "power {:g}", "strength": "λ = {:.3g}", "kl": "α = {:.3g}",
        "width": "width {:.2g}", "gamma": "γ = {:.2g}", "rate": "learning rate {:.3g}",
        "penalty": "weight penalty {:.2g}", "less": "less {:.3g} × the regressed cost",
    }  # fmt: skip
    return ", ".join(form.format(trial[key]) for key, form in names.items() if key in trial)
