"""Every experiment at a size that takes about a second."""

from typing import Any

from experiments.figures import (
    boosting,
    bound,
    examples,
    frontier,
    hierarchy,
    lattice,
    missing,
    mnist,
    numbers,
    ordinal,
    published,
    relaxed,
    relaxed_tags,
    tags,
    tradeoff,
    words,
)
from experiments.lab.decoders import Size
from experiments.lab.families import Budget

FEW = Budget(1, 1, (0.0005,))

SETTINGS: dict[str, Any] = {
    "lattice": lattice.Settings(
        sides=(3,), noises=(0.1, 0.8), repeats=2, iterations=200, tuning_iterations=50,
        train=20, test=20, learning_rates=(0.1,), smoothed_rates=(0.1,), epsilons=(1.0,),
        weight_penalties=(0.0005, 0.0),
    ),
    "relaxed": relaxed.Settings(
        size=16, lambdas=(5.0, 20.0), gammas=(1.0, 10.0, 100.0, 1000.0), metrics=1, pairs=3,
        sizes=(16, 32, 64), count_pairs=4,
    ),
    "mnist": mnist.Settings(
        powers=(0.0, 1.0, 32.0), strengths=(10.0, None), iterations=40, seeds=(0, 1),
        examples=1000,
    ),
    "tags": tags.Settings(
        sets=("clipart",), versions=("original",), budget=Budget(1, 2, (0.0005,)), alphas=(0.1,),
        rates=1, iterations=20, paper_iterations=30, seeds=2, most=300,
    ),
    "tradeoff": tradeoff.Settings(
        sets=("clipart",), versions=("reduced",), alphas=(0.0, 0.1), rates=(30.0,), iterations=20,
        seeds=2, most=200,
    ),
    "examples": examples.Settings(
        sets=("clipart",), budget=Budget(1, 1, (0.0005,)), iterations=20, items=3, most=200,
    ),
    "frontier": frontier.Settings(
        sets=("clipart",), budget=Budget(1, 1, (0.0005,)), iterations=10, seeds=2,
        most=100, without={}, less=(5.0,),
    ),
    "bound": bound.Settings(pool=50, sizes=(30, 100), trials=3, steps=50, draws=20),
    "numbers": numbers.Settings(
        tasks=(("product", 3),), size=Size(width=16, layers=1, heads=2, batch=8, steps=4),
        tuning_steps=2, examples=50, held_out=20, seeds=2,
    ),
    "words": words.Settings(
        words=300, length=6, size=Size(width=16, layers=1, heads=2, batch=8, steps=4),
        tuning_steps=2, held_out=20, rates=(0.01,), only_rates=(0.01,), seeds=2,
    ),
    "boosting": boosting.Settings(
        sets=("machine",), seeds=2, rates=(0.1,), leaves=(4,), rounds=(2, 4)
    ),
    "published": published.Settings(sets=("s-jaffe",), seeds=1, folds=2, alphas=(100.0, 30.0)),
    "ordinal": ordinal.Settings(budget=FEW, iterations=10, seeds=2, folds=3),
    "hierarchy": hierarchy.Settings(
        families=("kl", "decoded", "plan"), budget=FEW, iterations=10, seeds=2, least=100,
        features=8, most=300,
    ),
    "missing": missing.Settings(
        sets=("clipart",), rates=(0.0, 0.75), budget=FEW, iterations=10, seeds=2, features=8,
    ),
    "relaxed-tags": relaxed_tags.Settings(
        labels=20, features=8, most=300, budget=FEW, iterations=10, seeds=2,
    ),
}  # fmt: skip
