"""Checks of what users hand in: each error names the argument, what was expected and what came."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from wassloss.ground import GroundMetric


def checking() -> bool:
    """Whether values may be looked at: while `torch.compile` traces there are only shapes."""
    return not torch.compiler.is_compiling()


def first_row(wrong: Tensor) -> int | None:
    """The first row of a mask `(batch, n)` with a true entry, or None."""
    rows = wrong.any(1)
    return int(rows.nonzero()[0]) if rows.any() else None


def check_prediction(name: str, x: Tensor, metric: GroundMetric, label_dim: int) -> None:
    """A prediction is floating, has a place for every label, and lives where the metric does."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    if not x.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {x.dtype}")
    if x.dim() == 0 or x.shape[label_dim] != metric.size:
        raise ValueError(
            f"{name} must have {metric.size} labels, as the ground metric has, in dimension "
            f"{label_dim}, got shape {tuple(x.shape)}"
        )
    if x.device != metric.device:
        raise ValueError(
            f"{name} must be on the ground metric's device ({metric.device}), got {x.device}; "
            "move either with .to(device)"
        )


def check_logits(name: str, x: Tensor) -> None:
    """No NaN, no +inf; −inf rules a label out, but not all of them. `x` is `(batch, labels)`."""
    if not checking():
        return
    wrong = x.isnan() | (x == math.inf)
    row = first_row(wrong)
    if row is not None:
        value = x[row][wrong[row]][0].item()
        raise ValueError(f"{name} must not hold NaN or +inf, got {value} in example {row}")
    row = first_row((x == -math.inf).all(1, keepdim=True))
    if row is not None:
        raise ValueError(f"{name} must leave some label possible, got all -inf in example {row}")


def check_masses(name: str, h: Tensor) -> None:
    """A measure: finite, non-negative, not empty. `h` is `(batch, labels)`."""
    if not checking():
        return
    for wrong, expected in ((~h.isfinite(), "finite"), (h < 0, "non-negative")):
        row = first_row(wrong)
        if row is not None:
            value = h[row][wrong[row]][0].item()
            raise ValueError(f"{name} must be {expected}, got {value} in example {row}")
    row = first_row((h.sum(1) <= 0).unsqueeze(1))
    if row is not None:
        raise ValueError(f"{name} must have some mass in every example, got none in example {row}")


def check_equal_mass(prediction_mass: Tensor, target_mass: Tensor, dtype: torch.dtype) -> None:
    """Balanced transport moves mass; it neither makes nor destroys it. Masses are `(batch,)`."""
    if not checking():
        return
    tolerance = max(1e-6, math.sqrt(torch.finfo(dtype).eps))
    row = first_row(((target_mass - prediction_mass).abs() > tolerance * prediction_mass)[:, None])
    if row is not None:
        raise ValueError(
            f"target must have the mass of the prediction, {prediction_mass[row].item():.6g}, got "
            f"{target_mass[row].item():.6g} in example {row}; divide it by its sum "
            "(normalize_target=True does), or use relaxed transport (gamma, "
            "RelaxedWassersteinLoss), which allows masses to differ"
        )


def check_epsilon(epsilon: float) -> float:
    """`epsilon ≥ 0` and finite."""
    epsilon = float(epsilon)
    if not 0 <= epsilon < math.inf:
        raise ValueError(f"epsilon must be a finite number, at least 0, got {epsilon}")
    return epsilon


def check_gamma(gamma: float | Iterable[float]) -> tuple[float, float]:
    """One positive number for both sides or one for each; infinity is a constraint."""
    pair = (gamma, gamma) if isinstance(gamma, int | float) else tuple(gamma)
    if len(pair) != 2 or not all(float(g) > 0 for g in pair):
        raise ValueError(
            "gamma must be a positive number, or two (for the prediction and the target), got "
            f"{gamma}"
        )
    return float(pair[0]), float(pair[1])


def check_at_least(name: str, value: float, least: float) -> None:
    """A plain lower bound; NaN fails it."""
    if not value >= least:
        raise ValueError(f"{name} must be at least {least:g}, got {value}")


def check_class_weights(weight: Tensor, metric: GroundMetric) -> None:
    """One finite, non-negative weight a class."""
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        kind = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
        raise TypeError(f"weight must be a floating tensor, got {kind}")
    if weight.shape != (metric.size,):
        raise ValueError(f"weight must have shape ({metric.size},), got {tuple(weight.shape)}")
    if not (weight.isfinite() & (weight >= 0)).all():
        wrong = weight[~(weight.isfinite() & (weight >= 0))][0].item()
        raise ValueError(f"weight must be finite and non-negative, got {wrong}")
