"""Splits into training and held-out rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupShuffleSplit, train_test_split

if TYPE_CHECKING:
    from wassloss.app.examples import Examples

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]  # training rows, held-out rows


def held_out(
    y: NDArray[Any] | None, rows: int, share: float, groups: NDArray[Any] | None, seed: int
) -> Fold:
    """Hold out a share of the rows, stratified by class if possible.

    Rows of a group stay together. `y` is None if examples have several labels. Rows of a class that
    would only be held out are moved to the training rows, so that the model knows every class.
    """
    every = np.arange(rows)
    try:
        if groups is not None:
            split = GroupShuffleSplit(1, test_size=share, random_state=seed)
            train, held = next(iter(split.split(every, y, groups)))
        else:
            counts = np.array([0]) if y is None else np.unique(y, return_counts=True)[1]
            few = counts.min() < 2 or len(counts) > min(share, 1 - share) * rows - 1
            how = {"random_state": seed, "stratify": None if few else y}
            train, held = train_test_split(every, test_size=share, **how)
    except ValueError as error:
        kept = "rows" if groups is None else f"rows in {len(np.unique(groups))} groups"
        raise ValueError(f"a share of {share:g} cannot be held out of {rows} {kept}") from error
    if y is not None:
        lost = ~np.isin(y[held], y[train])
        if groups is not None:
            lost = np.isin(groups[held], groups[held[lost]])
        train, held = np.concatenate([train, held[lost]]), held[~lost]
        if not len(held):
            raise ValueError(f"a share of {share:g} cannot be held out: classes have too few rows")
    return np.sort(train), np.sort(held)


def check_apart(groups: NDArray[Any], train: NDArray[np.int64], held: NDArray[np.int64]) -> None:
    """Refuse a group with both training and held-out rows."""
    both = np.intersect1d(groups[train], groups[held])
    if len(both):
        rows = [int(some[groups[some] == both[0]][0]) for some in (train, held)]
        raise ValueError(
            "groups must not have both training and held-out rows, but rows "
            f"{rows[0]} and {rows[1]} are in one group"
        )


def check_known(train: NDArray[Any], held: NDArray[Any]) -> None:
    """Refuse a class that only held-out rows have, for a metric built from the classes."""
    unknown = held[~np.isin(held, train)]
    if len(unknown):
        raise ValueError(
            f"y must have every class in the training rows, got {unknown[0].item()!r} only in "
            "held-out rows; pass classes=[...] (--order), or hold out other rows"
        )


def divided(examples: Examples, share: float, seed: int) -> dict[str, NDArray[np.int64]]:
    """The parts of examples, with a part ``"test"`` if `share` is positive."""
    parts = examples.parts
    if parts and "train" not in parts:
        raise ValueError(
            f"data with parts must have a part named train, got {', '.join(parts)}: rename one of "
            "them, or drop the column 'part' to train on all rows; if that column is a feature, "
            "rename it"
        )
    if "test" in parts and examples.groups is not None:
        others = [rows for name, rows in parts.items() if name != "test"]
        check_apart(examples.groups, np.concatenate(others), parts["test"])
    if not share or "test" in parts:
        return parts
    rows = parts.get("train", np.arange(len(examples)))
    classes = None if examples.ids is None else examples.y[rows]
    groups = None if examples.groups is None else examples.groups[rows]
    train, held = held_out(classes, len(rows), share, groups, seed)
    return {**parts, "train": rows[train], "test": rows[held]}
