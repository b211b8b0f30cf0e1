"""Checks of what users hand in: each error names the argument, what was expected and what came."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from wassloss._looking import traceable
from wassloss.ground import GroundMetric


def numbers(*scalars: Tensor) -> list[float]:
    """Several numbers on one device, for which the host waits only once."""
    found: list[float] = torch.stack(scalars).tolist()
    return found


def first_row(wrong: Tensor) -> int | None:
    """The first row of a mask `(batch, n)` with a true entry, or None."""
    rows = wrong.any(1)
    return int(rows.nonzero()[0]) if rows.any() else None


def check_prediction(name: str, x: Tensor, metric: GroundMetric, label_dim: int) -> None:
    """A prediction is floating, has a place for every label, and lives where the metric does."""
    if torch.jit.is_tracing():  # type: ignore[attr-defined, unused-ignore]
        # A trace holds the branches and iterations of one batch, and would be wrong for the next.
        raise RuntimeError(
            "torch.jit.trace cannot record transport, which depends on the values in the batch: "
            "use torch.compile or torch.export, or trace the model without its loss"
        )
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    if x.layout != torch.strided:
        raise TypeError(f"{name} must be a dense tensor, got {x.layout}")
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


def _senseless_logits(x: Tensor, name: str) -> Tensor:
    return ~x.amax(1).isfinite()


@traceable("check_logits(Tensor x, str name)", _senseless_logits)
def check_logits(x: Tensor, name: str) -> None:
    """No NaN, no +inf; −inf rules a label out, but not all of them. `x` is `(batch, labels)`."""
    # One question first, for each answer makes the host wait; what is wrong is looked for after.
    # (A sum of large numbers that is not finite is no answer: then nothing is found below.)
    if math.isfinite(x.amax(1).sum()):
        return
    wrong = x.isnan() | (x == math.inf)
    row = first_row(wrong)
    if row is not None:
        value = x[row][wrong[row]][0].item()
        raise ValueError(f"{name} must not hold NaN or +inf, got {value} in example {row}")
    row = first_row((x == -math.inf).all(1, keepdim=True))
    if row is not None:
        raise ValueError(f"{name} must leave some label possible, got all -inf in example {row}")


def are_measures(masses: Tensor) -> bool:
    """Whether each row is non-negative, finite and not empty; a NaN is none of that."""
    if not masses.numel():
        return not len(masses)
    least, smallest, largest = numbers(masses.amin(), *masses.sum(1).aminmax())
    return least >= 0 and smallest > 0 and largest < math.inf


def senseless_masses(h: Tensor, name: str) -> Tensor:
    """Which rows are no measures, `(batch,)`."""
    return ~(h.isfinite() & (h >= 0)).all(1) | ~(h.sum(1) > 0)


@traceable("check_masses(Tensor h, str name)", senseless_masses)
def check_masses(h: Tensor, name: str) -> None:
    """A measure: finite, non-negative, not empty. `h` is `(batch, labels)`."""
    if are_measures(h):
        return
    for wrong, expected in ((~h.isfinite(), "finite"), (h < 0, "non-negative")):
        row = first_row(wrong)
        if row is not None:
            value = h[row][wrong[row]][0].item()
            raise ValueError(f"{name} must be {expected}, got {value} in example {row}")
    row = first_row((h.sum(1) <= 0).unsqueeze(1))
    if row is not None:
        raise ValueError(f"{name} must have some mass in every example, got none in example {row}")


def _too_much_mass(log_h: Tensor, name: str) -> Tensor:
    return log_h.logsumexp(1) >= math.log(torch.finfo(log_h.dtype).max)


@traceable("check_log_masses(Tensor log_h, str name)", _too_much_mass)
def check_log_masses(log_h: Tensor, name: str) -> None:
    """The masses themselves are finite numbers too. `log_h` is `(batch, labels)`."""
    row = first_row(_too_much_mass(log_h, name).unsqueeze(1))
    if row is not None:
        raise ValueError(
            f"{name} must be the log of a mass that {log_h.dtype} can hold, got "
            f"{log_h[row].max().item():g} in example {row}"
        )


def mass_tolerance(*given: torch.dtype) -> float:
    """How far apart balanced masses may be, relatively, when computed in these dtypes."""
    rounding = [torch.finfo(dtype).eps for dtype in given if dtype.is_floating_point]
    return max(1e-6, math.sqrt(max(rounding)))


def _unequal_masses(target_mass: Tensor, prediction_mass: Tensor, tolerance: float) -> Tensor:
    return (target_mass - prediction_mass).abs() > tolerance * prediction_mass


@traceable("check_equal_mass(Tensor target, Tensor prediction, float tolerance)", _unequal_masses)
def check_equal_mass(target_mass: Tensor, prediction_mass: Tensor, tolerance: float) -> None:
    """Balanced transport moves mass; it neither makes nor destroys it. Masses are `(batch,)`.

    The `tolerance` is that of :func:`mass_tolerance`.
    """
    if not len(target_mass):
        return
    smallest, largest = numbers(*(target_mass / prediction_mass).aminmax())
    if 1 - tolerance < smallest and largest < 1 + tolerance:
        return
    row = first_row(_unequal_masses(target_mass, prediction_mass, tolerance).unsqueeze(1))
    if row is not None:
        raise ValueError(
            f"target must have the mass of the prediction, {prediction_mass[row].item():.6g}, got "
            f"{target_mass[row].item():.6g} in example {row}; divide it by its sum "
            "(normalize_target=True does), or use relaxed transport (gamma, "
            "RelaxedWassersteinLoss), which allows masses to differ"
        )


def check_number(name: str, value: float) -> float:
    """A number, also one that NumPy or torch holds."""
    if not isinstance(value, str | bool):
        try:
            return float(value)
        except (TypeError, ValueError, RuntimeError):
            pass  # said better below
    raise TypeError(f"{name} must be a number, got {value!r}")


def check_flag(name: str, value: object) -> bool:
    """True or False, and nothing that could be taken for either."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_strength(name: str, value: float) -> float:
    """A finite number, not negative."""
    value = check_number(name, value)
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite number, at least 0, got {value:g}")
    return value


def check_ignore_index(value: SupportsIndex) -> int:
    """A class id as int64 holds them, which need not be one that occurs."""
    try:
        index = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        index = None
    if index is None:
        raise TypeError(f"ignore_index must be an integer, got {value!r}")
    if not -(2**63) <= index < 2**63:
        raise ValueError(f"ignore_index must be an int64, got {index}")
    return index


def check_fits(name: str, value: float, dtype: torch.dtype) -> None:
    """A strength, unless it is infinite, is a number in this dtype too."""
    if torch.finfo(dtype).max < value < math.inf:
        raise ValueError(
            f"{name} must be a number that {dtype} can hold, got {value:g}; use float64, or divide "
            "the costs by their median (scale='median')"
        )


def check_gamma(gamma: float | Iterable[float]) -> tuple[float, float]:
    """One positive number for both sides or one for each; infinity is a constraint.

    The target's may be 0, which leaves its marginal free.
    """
    given: Any = gamma
    try:
        if isinstance(given, int | float):  # torch.compile cannot follow the attempt below
            given = [gamma, gamma]
        given = [gamma] if isinstance(given, str) else list(given)
    except TypeError:  # not iterable, or only in name, as a tensor without dimensions
        given = [gamma, gamma]
    pair = [check_number("gamma", g) for g in given]
    if len(pair) != 2 or not (pair[0] > 0 and pair[1] >= 0):
        raise ValueError(
            "gamma must be a positive number, or two (for the prediction and the target, whose own "
            f"may be 0), got {tuple(pair)}"
        )
    return pair[0], pair[1]


def check_class_weights(weight: Tensor, metric: GroundMetric) -> None:
    """One finite, non-negative weight a class."""
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        kind = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
        raise TypeError(f"weight must be a floating tensor, got {kind}")
    if weight.shape != (metric.size,):
        raise ValueError(f"weight must have shape ({metric.size},), got {tuple(weight.shape)}")
    if weight.device != metric.device:
        raise ValueError(
            f"weight must be on the ground metric's device ({metric.device}), got {weight.device}; "
            "move either with .to(device)"
        )
    _check_weights(weight, "weight")


def checked_sample_weight(sample_weight: Tensor, shape: torch.Size, device: torch.device) -> Tensor:
    """One finite, non-negative weight for each of the losses of this shape, as they are."""
    if not isinstance(sample_weight, Tensor):
        raise TypeError(f"sample_weight must be a tensor, got {type(sample_weight).__name__}")
    if sample_weight.shape != shape:
        raise ValueError(
            f"sample_weight must have shape {tuple(shape)}, one weight per example, got "
            f"{tuple(sample_weight.shape)}"
        )
    if sample_weight.device != device:
        raise ValueError(
            f"sample_weight must be on the logits' device ({device}), got {sample_weight.device}"
        )
    marks = _check_weights(sample_weight.detach().flatten(), "sample_weight")
    return sample_weight if marks is None else sample_weight + marks.reshape(shape)


def _senseless_weights(weights: Tensor, name: str) -> Tensor:
    return ~(weights.isfinite() & (weights >= 0))


@traceable("check_weights(Tensor weights, str name)", _senseless_weights)
def _check_weights(weights: Tensor, name: str) -> None:
    wrong = _senseless_weights(weights, name)
    if wrong.any():
        raise ValueError(f"{name} must be finite and non-negative, got {weights[wrong][0].item()}")
