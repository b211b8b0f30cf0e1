"""Temperature scaling: calibrate probabilities with one number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from scipy.optimize import brentq
from torch import Tensor

from wassloss._checks import check_flag
from wassloss.decisions import _inputs
from wassloss.scores import _inputs as inputs
from wassloss.scores._inputs import Numbers

if TYPE_CHECKING:
    from typing_extensions import Self

_HOTTEST = 20.0  # temperatures are in [1/20, 20]; beyond, outputs are uniform or one-hot


class Temperature:
    r"""Temperature scaling: divide logits by one number, chosen by maximum likelihood.

    .. math:: q_j \propto \exp(z_j / T), \qquad
        T = \arg\max_T \sum_r w_r \log q_{r, y_r}

    An overconfident model has :math:`T > 1`. The most probable label does not change, but decisions
    by expected cost do, because they need calibrated probabilities (Guo et al., 2017). Fit the
    temperature on rows that the model was not trained on.

    For probabilities, :math:`z_j = \log p_j`. A probability of 0, which random forests often
    return, is raised to `floor`: the smallest positive probability in the rows of `fit`, divided by
    the number of labels. A true label of probability 0 then has a finite loss. `temperature` is in
    [1/20, 20].

    Args:
        logits: whether `fit` and calls take logits. Calls always return probabilities.

    Attributes:
        temperature: the fitted `T`.
        floor: the fitted smallest probability; 0 for logits.

    >>> import torch
    >>> p = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    >>> cooler = Temperature().fit(p, [0, 0, 1, 1])  # sure of 90 %, right in 75 %
    >>> cooler
    Temperature(2)
    >>> cooler(p)[0]
    tensor([0.7500, 0.2500])
    """

    temperature: float
    floor: float

    def __init__(self, *, logits: bool = False) -> None:
        self.logits = check_flag("logits", logits)

    @torch.no_grad()
    def fit(self, probabilities: Numbers, y: Any, sample_weight: Numbers | None = None) -> Self:
        """Choose the temperature.

        Args:
            probabilities: `(rows, labels)`, or logits if `logits`: tensor, array or data frame.
            y: the true label of each row, `(rows,)`: class ids, or names of the frame's columns.
            sample_weight: weight per row, `(rows,)`.
        """
        p = self._read(probabilities)
        names = _inputs.column_names(probabilities)
        truth = _inputs.read_truth(y, p.shape[0], p.shape[1], names).to(p.device)
        weight = inputs.read_sample_weight(sample_weight, p)
        if not weight.sum() > 0:
            raise ValueError(
                "y must have a row with positive weight to choose a temperature, got 0"
            )
        self.floor = 0.0 if self.logits else float(p[p > 0].min()) / p.shape[1]
        self.temperature = _most_likely(self._logits(p), truth, weight / weight.sum())
        return self

    @torch.no_grad()
    def __call__(self, probabilities: Numbers) -> Any:
        """Scale probabilities; the result has the type and dtype of the input."""
        if not hasattr(self, "temperature"):
            raise ValueError("Temperature must be fitted first: call fit(probabilities, y)")
        p = (self._logits(self._read(probabilities)) / self.temperature).softmax(1)
        if isinstance(probabilities, Tensor) and probabilities.is_floating_point():
            p = p.to(probabilities.dtype)
        return _inputs.given_back(p, probabilities, by_label=True)

    def _read(self, given: Numbers) -> Tensor:
        if not self.logits:
            return _inputs.read_simplex(given)
        z = inputs.read_scores(_inputs.in_label_order(given), name="logits").double()
        if not z.isfinite().all():
            raise ValueError("logits must be finite, got an infinite one")
        return z

    def _logits(self, p: Tensor) -> Tensor:
        return p if self.logits else p.clamp(min=self.floor).log()

    def __repr__(self) -> str:
        fitted = hasattr(self, "temperature")
        return f"Temperature({self.temperature:.4g})" if fitted else "Temperature(), not fitted"


def _most_likely(z: Tensor, truth: Tensor, weight: Tensor) -> float:
    """The maximum-likelihood temperature, the zero of the slope, or the nearer bound."""
    coldest, hottest = 1 / _HOTTEST, _HOTTEST
    if likelihood_slope(1 / coldest, z, truth, weight) <= 0:
        return coldest
    if likelihood_slope(1 / hottest, z, truth, weight) >= 0:
        return hottest
    found = brentq(lambda b: likelihood_slope(b, z, truth, weight), 1 / hottest, 1 / coldest)
    return 1 / float(found)


def likelihood_slope(inverse: float, z: Tensor, truth: Tensor, weight: Tensor) -> float:
    r"""The derivative of the mean negative log-likelihood in :math:`1 / T`, which is increasing."""
    own = z.gather(1, truth[:, None])[:, 0]
    expected = ((inverse * z).softmax(1) * z).sum(1)
    return float(weight @ (expected - own))
