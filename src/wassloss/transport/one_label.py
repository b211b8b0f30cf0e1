r"""One true label κ, to which all mass travels: the closed form behind every loss on class ids.

.. math:: W = \sum_j h_j \varphi_j, \qquad \varphi_j = w M_{j\kappa} + \varepsilon \log h_j

With `h = softmax(z)` and `α (−log h_κ)` added, the gradient in the logits z is
`h (φ − ⟨h, φ⟩ + α) − α [j = κ]`. The functions take tensors and NumPy arrays; the compiled passes
have one version each, in `native/class_ids.hpp` and `kernels/triton/loss.py`.
"""

from __future__ import annotations

from typing import Any


def slope(log_h: Any, cost: Any, epsilon: float, weight: float = 1.0) -> Any:
    """`φ`, the derivative of `W` in `h` up to a constant; `epsilon` is 0 for ``"product"``."""
    return weight * cost + epsilon * log_h


def gradient(h: Any, slope: Any, mean: Any, kl_weight: float, is_label: Any) -> Any:
    """The gradient in the logits, given `mean = ⟨h, φ⟩` and the label's position."""
    return h * (slope - mean + kl_weight) - kl_weight * is_label
