"""Check the predictions and weights passed to losses; `wassloss.targets` reads targets."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wassloss._checks import check_device, check_weights, traceable
from wassloss.targets import Target, is_class_ids


def invalid_logits(x: Tensor) -> Tensor:
    """A mask of the rows without a softmax: those with NaN or +inf, or with only −inf."""
    return ~x.amax(1).isfinite()


@traceable("check_logits(Tensor x, str name)", lambda x, name: invalid_logits(x))
def check_logits(row: int, x: Tensor, name: str) -> str:
    """Refuse NaN, +inf and rows of −inf in `x`, `(batch, labels)`; a −inf excludes its label."""
    wrong = x[row].isnan() | (x[row] == math.inf)
    if wrong.any():
        value = x[row][wrong][0].item()
        return f"{name} must not hold NaN or +inf, got {value} in example {row}"
    return f"{name} must leave at least one label possible, got all -inf in example {row}"


def _too_much_mass(log_h: Tensor, name: str) -> Tensor:
    return log_h.logsumexp(1) >= math.log(torch.finfo(log_h.dtype).max)


@traceable("check_log_masses(Tensor log_h, str name)", _too_much_mass)
def check_log_masses(row: int, log_h: Tensor, name: str) -> str:
    """Check that the masses `exp(log_h)`, `(batch, labels)`, do not overflow."""
    return (
        f"{name} must be the log of a mass that {log_h.dtype} can hold, got "
        f"{log_h[row].max().item():g} in example {row}"
    )


def check_class_ids(target: Target, advice: str = "") -> None:
    """Check that a target holds class ids; :func:`read_target` checks their values."""
    if not is_class_ids(target):
        got = getattr(target, "dtype", type(target).__name__)
        raise TypeError(f"target must be integer class ids, got {got}{advice}")


def mass_tolerance(*given: torch.dtype) -> float:
    """The relative difference allowed between balanced masses in these dtypes."""
    rounding = [torch.finfo(dtype).eps for dtype in given if dtype.is_floating_point]
    return max(1e-6, math.sqrt(max(rounding)))


def _unequal_masses(target_mass: Tensor, prediction_mass: Tensor, tolerance: float) -> Tensor:
    return (target_mass - prediction_mass).abs() > tolerance * prediction_mass


@traceable("check_equal_mass(Tensor target, Tensor prediction, float tolerance)", _unequal_masses)
def check_equal_mass(
    row: int, target_mass: Tensor, prediction_mass: Tensor, tolerance: float
) -> str:
    """Check that prediction and target have equal masses, each `(batch,)`.

    :func:`mass_tolerance` computes the `tolerance`.
    """
    return (
        f"target must have the mass of the prediction, {prediction_mass[row].item():.6g}, got "
        f"{target_mass[row].item():.6g} in example {row}; divide it by its sum "
        "(normalize_target=True does), or use relaxed transport (gamma, "
        "RelaxedWassersteinLoss), which allows masses to differ"
    )


def check_class_weights(weight: Tensor, labels: int, device: torch.device) -> None:
    """Check that weights are finite and non-negative, one per class."""
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        kind = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
        raise TypeError(f"weight must be a floating tensor, got {kind}")
    if weight.shape != (labels,):
        raise ValueError(f"weight must have shape ({labels},), got {tuple(weight.shape)}")
    check_device("weight", weight, device)
    check_weights(weight, "weight")


def checked_sample_weight(sample_weight: Tensor, shape: torch.Size, device: torch.device) -> Tensor:
    """Check that weights are finite and non-negative, one per example, in the losses' shape."""
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
    marks = check_weights(sample_weight.detach().flatten(), "sample_weight")
    return sample_weight if marks is None else sample_weight + marks.reshape(shape)
