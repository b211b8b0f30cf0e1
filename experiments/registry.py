"""All experiments, in the order in which they run."""

from __future__ import annotations

from experiments.figures import (
    boosting,
    bound,
    examples,
    frontier,
    hierarchy,
    lattice,
    missing,
    mnist,
    networks,
    numbers,
    ordinal,
    published,
    relaxed,
    relaxed_tags,
    tags,
    tradeoff,
    words,
)
from experiments.lab.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        lattice,
        relaxed,
        mnist,
        tags,
        tradeoff,
        examples,
        bound,
        frontier,
        ordinal,
        hierarchy,
        missing,
        relaxed_tags,
        networks,
        numbers,
        words,
        boosting,
        published,
    )
}


def find_experiment(name: str) -> Experiment:
    """Find an experiment by name."""
    if name not in EXPERIMENTS:
        raise ValueError(f"name must be one of {', '.join(EXPERIMENTS)}, got {name!r}")
    return EXPERIMENTS[name]
