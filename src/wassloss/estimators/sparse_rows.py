"""Sparse features for models that begin with a linear layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn.functional import linear


class SparseRows:
    """Rows of a `scipy.sparse` matrix, in place of a tensor of features `(n, features)`.

    Means are subtracted from products rather than from rows, which stay sparse. Rows support
    `torch.nn.functional.linear`, and thus models that begin with a linear layer, and
    `tensor @ rows`. SciPy computes the products on the CPU: they and their gradients take a tenth
    of the time of torch's sparse layouts.

    >>> rows = SparseRows(sparse.csr_array([[0.0, 2.0], [1.0, 0.0]]))
    >>> layer = torch.nn.Linear(2, 3, dtype=torch.float64)
    >>> torch.allclose(layer(rows), layer(torch.tensor([[0.0, 2.0], [1.0, 0.0]]).double()))
    True
    """

    def __init__(self, matrix: Any, means: Tensor | None = None) -> None:
        self.matrix, self.means = sparse.csr_array(matrix), means

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def __getitem__(self, rows: Tensor | slice) -> SparseRows:
        places = rows if isinstance(rows, slice) else rows.cpu().numpy()
        return SparseRows(self.matrix[places], self.means)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and features."""
        rows, features = self.matrix.shape
        return int(rows), int(features)

    def moments(self, weight: Tensor | None = None) -> Tensor:
        """`Xᵀ diag(weight) X / n`, `(features, features)`."""
        share = np.ones(len(self)) if weight is None else weight.cpu().numpy()
        weighted = self.matrix.T.multiply(share / len(self)).tocsr()
        moments: Tensor = torch.from_numpy((weighted @ self.matrix).toarray())
        if self.means is None:
            return moments
        means = self.means.to(moments)
        sums = torch.from_numpy(weighted.sum(1)).to(moments)
        cross = torch.outer(sums, means)
        moments += float(share.mean()) * torch.outer(means, means) - cross - cross.T
        return moments

    def to(self, device: torch.device) -> SparseRows:
        """Return self: rows stay on the CPU, and only products move to the device."""
        return self

    def __rmatmul__(self, left: Tensor) -> Tensor:
        """`left @ rows`, without a gradient."""
        product: Tensor = _times(self.matrix.T, left.T).T.contiguous()
        if self.means is None:
            return product
        return product - left.sum(1, keepdim=True) * self.means.to(left)

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is not linear or not isinstance(args[0], cls):
            return NotImplemented
        return _linear(*args, **(kwargs or {}))


def _linear(input: SparseRows, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = _Product.apply(weight, input.matrix)
    if input.means is not None:
        product = product - weight @ input.means.to(weight)
    return product if bias is None else product + bias


class _Product(torch.autograd.Function):
    """`X Wᵀ` with its gradient in `W`."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, matrix: Any) -> Tensor:
        ctx.matrix = matrix
        return _times(matrix, weight.T)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _times(ctx.matrix.T, gradient).T.contiguous(), None


def _times(matrix: Any, tensor: Tensor) -> Tensor:
    return torch.from_numpy(matrix @ tensor.detach().cpu().numpy()).to(tensor)
