"""How far predicted distributions over labels are from the true ones: blind to the ground metric.

These are the six scores of label distribution learning (Geng, 2016); for one that knows which
labels are near, see :func:`wassloss.scores.mean_wasserstein`. Rows of predictions and targets are
divided by their sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wassloss.scores._inputs import AnyTarget, Mean, Numbers, finished, read_distributions

if TYPE_CHECKING:
    from typing_extensions import Unpack


@torch.no_grad()
def chebyshev(probabilities: Numbers, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""The largest difference, :math:`\max_j |h_j - y_j|`; smaller is better.

    Args:
        probabilities: masses, `(batch, labels)`, of which each row is divided by its sum.
        target: in any form, divided by its sum.
        **mean: ``sample_weight`` and ``reduction``; see :mod:`wassloss.scores`.

    >>> import numpy as np
    >>> chebyshev(np.array([[0.5, 0.5, 0.0]]), np.array([[0.2, 0.6, 0.2]]))
    0.3
    """
    h, y = read_distributions(probabilities, target)
    return finished((h - y).abs().amax(1), probabilities, **mean)


@torch.no_grad()
def clark(probabilities: Numbers, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""Clark's distance; smaller is better.

    .. math:: \sqrt{\sum_j \Bigl(\frac{h_j - y_j}{h_j + y_j}\Bigr)^2}

    Labels without mass on either side add 0. Arguments are those of :func:`chebyshev`.

    >>> import numpy as np
    >>> clark(np.array([[0.5, 0.5, 0.0]]), np.array([[0.5, 0.0, 0.5]]))
    1.4142
    """
    relative = _relative_gap(*read_distributions(probabilities, target))
    return finished((relative**2).sum(1).sqrt(), probabilities, **mean)


@torch.no_grad()
def canberra(probabilities: Numbers, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""The Canberra distance, :math:`\sum_j |h_j - y_j| / (h_j + y_j)`; smaller is better.

    Labels without mass on either side add 0. Arguments are those of :func:`chebyshev`.

    >>> import numpy as np
    >>> canberra(np.array([[0.5, 0.5, 0.0]]), np.array([[0.5, 0.0, 0.5]]))
    2.0
    """
    relative = _relative_gap(*read_distributions(probabilities, target))
    return finished(relative.sum(1), probabilities, **mean)


@torch.no_grad()
def kl_divergence(probabilities: Numbers, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""The Kullback-Leibler divergence, :math:`\sum_j y_j \log(y_j / h_j)`; smaller is better.

    Infinite if a label with mass in the target has none in the prediction. Arguments are those of
    :func:`chebyshev`.

    >>> import numpy as np
    >>> kl_divergence(np.array([[0.5, 0.5, 0.0]]), np.array([[1.0, 0.0, 0.0]]))
    0.6931
    """
    h, y = read_distributions(probabilities, target)
    return finished(torch.xlogy(y, y).sub(torch.xlogy(y, h)).sum(1), probabilities, **mean)


@torch.no_grad()
def cosine(probabilities: Numbers, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""The cosine similarity, :math:`\langle h, y \rangle / (\|h\| \|y\|)`; larger is better.

    Arguments are those of :func:`chebyshev`.

    >>> import numpy as np
    >>> cosine(np.array([[0.5, 0.5, 0.0]]), np.array([[1.0, 0.0, 0.0]]))
    0.7071
    """
    h, y = read_distributions(probabilities, target)
    return finished(torch.cosine_similarity(h, y), probabilities, **mean)


@torch.no_grad()
def intersection(probabilities: Numbers, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""The mass in common, :math:`\sum_j \min(h_j, y_j)`; larger is better.

    Arguments are those of :func:`chebyshev`.

    >>> import numpy as np
    >>> intersection(np.array([[0.5, 0.5, 0.0]]), np.array([[0.2, 0.6, 0.2]]))
    0.7
    """
    h, y = read_distributions(probabilities, target)
    return finished(torch.minimum(h, y).sum(1), probabilities, **mean)


def _relative_gap(h: Tensor, y: Tensor) -> Tensor:
    total = h + y
    return torch.where(total > 0, (h - y).abs() / total, 0.0)
