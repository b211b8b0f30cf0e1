"""Every invalid argument is named, with what was expected and what was passed."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import wassloss as wl
from tests.losses.per_example import relaxed_wasserstein_loss, wasserstein_loss
from wassloss.ground import Matrix, Ordinal
from wassloss.transport import Newton
from wassloss.transport.algorithm_one import AlgorithmOne
from wassloss.transport.closed_forms import LineArea
from wassloss.transport.network_simplex import NetworkSimplex

METRIC = Ordinal(4)
LOGITS = torch.zeros(2, 4)
H = torch.full((2, 4), 0.25)
IDS = torch.tensor([0, 3])
NAN, INF = math.nan, math.inf


def broken(x: torch.Tensor, value: float) -> torch.Tensor:
    """`x` with one wrong entry, in example 1."""
    x = x.clone()
    x[1, 2] = value
    return x


def sparse(indices: list[list[int]], weights: list[list[float]]) -> wl.SparseTarget:
    return wl.SparseTarget(torch.tensor(indices), torch.tensor(weights))


def w(h: Any = H, y: Any = H, metric: Any = METRIC, **keywords: Any) -> torch.Tensor:
    return wl.wasserstein(h, y, metric, **keywords)


def loss(logits: Any = LOGITS, target: Any = IDS, metric: Any = METRIC, **keywords: Any) -> Any:
    return wl.WassersteinLoss(metric, **{"kl_weight": 0.0, **keywords}, normalize_cost=False)(
        logits, target
    )


def relaxed(log_h: Any = LOGITS, target: Any = H, metric: Any = METRIC, **keywords: Any) -> Any:
    keywords = {"kl_weight": 0.0, **keywords}
    return wl.RelaxedWassersteinLoss(metric, **keywords, normalize_cost=False)(log_h, target)


def weighed(sample_weight: Any) -> Any:
    return wl.WassersteinLoss(METRIC, kl_weight=0.0, normalize_cost=False)(
        LOGITS, IDS, sample_weight
    )


Mistake = tuple[Callable[[], object], type[Exception], str]

PREDICTION: dict[str, Mistake] = {
    "NaN in h": (lambda: w(broken(H, NAN)), ValueError, "h must be finite, got nan in example 1"),
    "inf in h": (lambda: w(broken(H, INF)), ValueError, "h must be finite, got inf in example 1"),
    "negative h": (
        lambda: w(broken(H, -0.25)),
        ValueError,
        "h must be non-negative, got -0.25 in example 1",
    ),
    "empty h": (lambda: w(0 * H), ValueError, "h must have some mass .*, got none in example 0"),
    "NaN in logits": (
        lambda: loss(broken(LOGITS, NAN)),
        ValueError,
        r"logits must not hold NaN or \+inf, got nan in example 1",
    ),
    "+inf in logits": (
        lambda: loss(broken(LOGITS, INF)),
        ValueError,
        r"logits must not hold NaN or \+inf, got inf in example 1",
    ),
    "all logits -inf": (
        lambda: loss(LOGITS - INF),
        ValueError,
        "logits must leave at least one label possible, got all -inf in example 0",
    ),
    "NaN in log_h": (
        lambda: relaxed(broken(LOGITS, NAN)),
        ValueError,
        r"log_h must not hold NaN or \+inf, got nan in example 1",
    ),
    "log_h too large": (
        lambda: relaxed(broken(LOGITS, 100.0)),
        ValueError,
        "log_h must be the log of a mass that torch.float32 can hold, got 100.* in example 1",
    ),
    "integer logits": (
        lambda: loss(LOGITS.long()),
        TypeError,
        "logits must be floating point, got torch.int64",
    ),
    "list of logits": (lambda: loss([[0.0] * 4]), TypeError, "logits must be a tensor, got list"),
    "integer h": (lambda: w(H.long()), TypeError, "h must be floating point, got torch.int64"),
    "list h": (lambda: w([0.25] * 4), TypeError, "h must be a tensor, got list"),
    "sparse logits": (
        lambda: loss(torch.ones(2, 4).to_sparse_coo()),
        TypeError,
        "logits must be a dense tensor, got torch.sparse_coo",
    ),
    "sparse h": (
        lambda: w(H.to_sparse_coo()),
        TypeError,
        "h must be a dense tensor, got torch.sparse_coo",
    ),
    "too few labels in logits": (
        lambda: loss(LOGITS[:, :3]),
        ValueError,
        r"logits must have 4 labels, as the ground metric has, in dimension 1, .*\(2, 3\)",
    ),
    "too many labels in h": (
        lambda: w(torch.ones(2, 5)),
        ValueError,
        r"h must have 4 labels, as the ground metric has, in dimension -1, .*\(2, 5\)",
    ),
    "scalar h": (lambda: w(torch.tensor(1.0)), ValueError, r"h must have 4 labels.*shape \(\)"),
    "h with more batch dimensions": (
        lambda: w(torch.full((2, 3, 4), 0.25)),
        ValueError,
        r"h must have shape \(batch, labels\) or \(labels,\), got \(2, 3, 4\)",
    ),
    "h elsewhere": (
        lambda: w(H.to("meta")),
        ValueError,
        r"h must be on the ground metric's device \(cpu\), got meta",
    ),
    "logits elsewhere": (
        lambda: loss(LOGITS.to("meta")),
        ValueError,
        r"logits must be on the ground metric's device \(cpu\), got meta",
    ),
}

SPARSE = sparse([[0, 1], [2, 3]], [[0.5, 0.5], [0.5, 0.5]])
ELSEWHERE = r"target must be on the same device as the prediction \(cpu\), got meta"

TARGET: dict[str, Mistake] = {
    "NaN in y": (
        lambda: w(y=broken(H, NAN)),
        ValueError,
        "target must be finite, got nan in example 1",
    ),
    "a sparse target without a dimension": (
        lambda: loss(
            LOGITS[0], wl.SparseTarget(torch.tensor(0), torch.tensor(1.0)), reduction="none"
        ),
        ValueError,
        r"target.indices and target.weights must have shape \('support',\), got \(\) and \(\)",
    ),
    "inf in y": (
        lambda: loss(target=broken(H, INF)),
        ValueError,
        "target must be finite, got inf in example 1",
    ),
    "negative y": (
        lambda: loss(target=broken(H, -1.0)),
        ValueError,
        "target must be non-negative, got -1.0 in example 1",
    ),
    "NaN in sparse weights": (
        lambda: loss(target=sparse([[0, 1], [2, 3]], [[0.5, 0.5], [NAN, 1.0]])),
        ValueError,
        "target must be finite, got nan in example 1",
    ),
    "negative sparse weight": (
        lambda: loss(target=sparse([[0, 1], [2, 3]], [[0.5, 0.5], [2.0, -1.0]])),
        ValueError,
        "target must be non-negative, got -1.0 in example 1",
    ),
    "all-zero row": (
        lambda: loss(target=torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 0]])),
        ValueError,
        "target must have some mass in every example, got none in example 1",
    ),
    "all-zero row, normalized": (
        lambda: loss(target=0 * H, normalize_target=True),
        ValueError,
        "target must have some mass in every example, got none in example 0",
    ),
    "all-zero row, relaxed": (
        lambda: relaxed(target=0 * H),
        ValueError,
        "target must have some mass in every example, got none in example 0",
    ),
    "empty sparse target": (
        lambda: loss(target=wl.SparseTarget(torch.zeros(2, 0).long(), torch.zeros(2, 0))),
        ValueError,
        "target must have some mass in every example, got none in example 0",
    ),
    "empty COO matrix": (
        lambda: loss(target=torch.zeros(2, 4).to_sparse()),
        ValueError,
        "target must have some mass in every example, got none in example 0",
    ),
    "unequal mass of a distance": (
        lambda: w(y=2 * H),
        ValueError,
        "target must have the mass of the prediction, 1, got 2 in example 0; divide it by its sum"
        ".*normalize_target=True.*relaxed transport.*gamma",
    ),
    "tags of weight 1": (
        lambda: loss(target=torch.tensor([[1.0, 0, 0, 0], [0, 1, 1, 0]])),
        ValueError,
        "target must have the mass of the prediction, 1, got 2 in example 1"
        ".*normalize_target=True.*RelaxedWassersteinLoss",
    ),
    "class id too large": (
        lambda: loss(target=torch.tensor([0, 4])),
        ValueError,
        r"target must hold class ids in 0\.\.3 \(or ignore_index=-100\), got 4 for example 1",
    ),
    "negative class id": (
        lambda: loss(target=torch.tensor([-1, 0])),
        ValueError,
        r"target must hold class ids in 0\.\.3 \(or ignore_index=-100\), got -1 for example 0",
    ),
    "nothing to ignore in a distance": (
        lambda: w(y=torch.tensor([0, -100])),
        ValueError,
        r"target must hold class ids in 0\.\.3, got -100 for example 1",
    ),
    "nothing to ignore in a solve": (
        lambda: wl.solve(H, torch.tensor([0, -100]), METRIC),
        ValueError,
        r"target must hold class ids in 0\.\.3, got -100 for example 1",
    ),
    "too few class ids": (
        lambda: loss(target=torch.tensor([0])),
        ValueError,
        r"target must be class ids of shape \(2,\), got integers of shape \(1,\)",
    ),
    "integer multi-hot": (
        lambda: loss(target=torch.ones(2, 4).long()),
        ValueError,
        r"target must be class ids of shape \(2,\), .*\(2, 4\); for weights.*target\.float\(\)",
    ),
    "integer multi-hot of an image": (
        lambda: loss(torch.zeros(2, 4, 5), torch.ones(2, 4, 5).long()),
        ValueError,
        r"target must be class ids of shape \(2, 5\), .*\(2, 4, 5\); for weights.*target\.float",
    ),
    "boolean multi-hot": (
        lambda: loss(target=torch.ones(2, 4).bool()),
        TypeError,
        r"target must be integer class ids or floating weights, got torch.bool.*target\.float\(\)",
    ),
    "float class ids": (
        lambda: loss(target=torch.tensor([0.0, 1.0])),
        ValueError,
        r"target must be weights of shape \(2, 4\), .*got \(2,\)",
    ),
    "weights of another batch": (
        lambda: w(y=torch.full((3, 4), 0.25)),
        ValueError,
        r"target must be weights of shape \(2, 4\), .*got \(3, 4\)",
    ),
    "weights of another image": (
        lambda: loss(torch.zeros(2, 4, 5), torch.full((2, 4, 6), 0.25)),
        ValueError,
        r"target must be weights of shape \(2, 4, 5\), .*got \(2, 4, 6\)",
    ),
    "weights of an image, labels last": (
        lambda: loss(torch.zeros(2, 4, 5), torch.full((2, 5, 4), 0.25)),
        ValueError,
        r"target must be weights of shape \(2, 4, 5\), .*got \(2, 5, 4\)",
    ),
    "list": (lambda: loss(target=[0, 3]), TypeError, "target must be a tensor .*got list"),
    "tuple for a sparse target": (
        lambda: loss(target=(SPARSE.indices, SPARSE.weights)),
        TypeError,
        "target must be a tensor .* a SparseTarget or a SetTarget, got tuple",
    ),
    "duplicates": (
        lambda: loss(target=sparse([[0, 1], [2, 2]], [[0.5, 0.5], [0.5, 0.5]])),
        ValueError,
        r"target must name each label once per example, got \[2, 2\] in example 1",
    ),
    "sparse label out of range": (
        lambda: loss(target=sparse([[0, 1], [2, 4]], [[0.5, 0.5], [0.5, 0.5]])),
        ValueError,
        r"target must name labels in 0\.\.3, got \[2, 4\] in example 1",
    ),
    "weights and indices exchanged": (
        lambda: loss(target=wl.SparseTarget(SPARSE.weights, SPARSE.indices)),
        TypeError,
        "target must have integer indices and floating weights, got torch.float32 and torch.int64",
    ),
    "indices of another kind": (
        lambda: loss(target=wl.SparseTarget(SPARSE.indices.cfloat(), SPARSE.weights)),
        TypeError,
        "target must have integer indices and floating weights, got torch.complex64 and .*float32",
    ),
    "indices that are a mask": (
        lambda: loss(target=wl.SparseTarget(SPARSE.indices > 0, SPARSE.weights)),
        TypeError,
        "target must have integer indices and floating weights, got torch.bool and torch.float32",
    ),
    "weights in a layout of their own": (
        lambda: loss(target=wl.SparseTarget(SPARSE.indices, SPARSE.weights.to_sparse_coo())),
        TypeError,
        "target.indices and target.weights must be dense tensors, got torch.strided and .*_coo",
    ),
    "sparse shapes differ": (
        lambda: loss(target=sparse([[0, 1], [2, 3]], [[1.0], [1.0]])),
        ValueError,
        r"target.indices and target.weights must have shape .* got \(2, 2\) and \(2, 1\)",
    ),
    "sparse target of another batch": (
        lambda: loss(target=sparse([[0, 1]], [[0.5, 0.5]])),
        ValueError,
        r"target.indices and target.weights must have shape .* got \(1, 2\)",
    ),
    "lists in a sparse target": (
        lambda: loss(target=wl.SparseTarget([[0], [1]], [[1.0], [1.0]])),
        TypeError,
        "target.indices and target.weights must be dense tensors, got list and list",
    ),
    "COO matrix of another shape": (
        lambda: loss(target=torch.eye(3).to_sparse()),
        ValueError,
        r"target must be a sparse matrix of shape \(2, 4\), got \(3, 3\)",
    ),
    "ids elsewhere": (lambda: loss(target=IDS.to("meta")), ValueError, ELSEWHERE),
    "weights elsewhere": (lambda: loss(target=H.to("meta")), ValueError, ELSEWHERE),
    "COO elsewhere": (lambda: loss(target=H.to_sparse().to("meta")), ValueError, ELSEWHERE),
    "sparse indices elsewhere": (
        lambda: loss(target=wl.SparseTarget(SPARSE.indices.to("meta"), SPARSE.weights)),
        ValueError,
        ELSEWHERE,
    ),
    "sparse weights elsewhere": (
        lambda: loss(target=wl.SparseTarget(SPARSE.indices, SPARSE.weights.to("meta"))),
        ValueError,
        ELSEWHERE,
    ),
}


def cost(i: int, j: int, value: float) -> torch.Tensor:
    matrix = METRIC.cost().clone()
    matrix[i, j] = value
    return matrix


COST: dict[str, Mistake] = {
    "not square": (
        lambda: w(metric=torch.zeros(4, 3)),
        ValueError,
        r"distance must be square, got shape \(4, 3\)",
    ),
    "asymmetric": (
        lambda: w(metric=cost(0, 1, 5.0)),
        ValueError,
        r"distance must be symmetric, got distance\[0, 1\] = 5 and distance\[1, 0\] = 1",
    ),
    "negative": (
        lambda: loss(metric=cost(0, 1, -1.0)),
        ValueError,
        r"distance must not be negative, got distance\[0, 1\] = -1",
    ),
    "non-zero diagonal": (
        lambda: relaxed(metric=cost(2, 2, 1.0)),
        ValueError,
        r"distance must be 0 on the diagonal, got distance\[2, 2\] = 1",
    ),
    "NaN": (
        lambda: w(metric=cost(0, 1, NAN)),
        ValueError,
        r"distance must be finite, got distance\[0, 1\] = nan",
    ),
    "inf": (
        lambda: w(metric=cost(0, 1, INF)),
        ValueError,
        r"distance must be finite, got distance\[0, 1\] = inf",
    ),
    "overflows when raised": (
        lambda: w(y=H.roll(1, 1), metric=Matrix(1e30 * METRIC.cost(), power=2), epsilon=1.0),
        ValueError,
        r"metric must have finite costs in torch.float32.*scale='max'",
    ),
    "overflows on the way to a class": (
        lambda: w(y=IDS, metric=Matrix(1e30 * METRIC.cost(), power=2)),
        ValueError,
        r"metric must have finite costs in torch.float32.*scale='max'",
    ),
    "overflows in the logits' dtype": (
        lambda: loss(
            metric=Matrix(1e60 * METRIC.cost().double()), scaling_iterations=2, epsilon=1.0
        ),
        ValueError,
        r"metric must have finite costs in torch.float32.*scale='max'",
    ),
    "of the wrong type": (
        lambda: loss(metric="euclidean"),
        TypeError,
        "metric must be a GroundMetric, or a tensor or array of distances.*got str",
    ),
    "a class": (
        lambda: loss(metric=Ordinal),
        TypeError,
        "metric must be a GroundMetric.*got ",
    ),
}

SETTINGS: dict[str, Mistake] = {
    "epsilon < 0": (
        lambda: w(epsilon=-0.1),
        ValueError,
        "epsilon must be a finite number, at least 0, got -0.1",
    ),
    "epsilon NaN": (
        lambda: loss(epsilon=NAN),
        ValueError,
        "epsilon must be a finite number, at least 0, got nan",
    ),
    "epsilon inf": (
        lambda: loss(epsilon=INF),
        ValueError,
        "epsilon must be a finite number, at least 0, got inf",
    ),
    "epsilon beyond the dtype": (
        lambda: loss(epsilon=1e39, target=H),
        ValueError,
        r"epsilon must be a number that torch.float32 can hold, got 1e\+39; use float64",
    ),
    "epsilon beyond the dtype, to a class": (
        lambda: loss(epsilon=1e39),
        ValueError,
        r"epsilon must be a number that torch.float32 can hold, got 1e\+39; use float64",
    ),
    "gamma beyond the dtype": (
        lambda: relaxed(gamma=1e39),
        ValueError,
        r"gamma must be a number that torch.float32 can hold, got 1e\+39; use float64",
    ),
    "kl_weight beyond the dtype": (
        lambda: loss(kl_weight=1e39),
        ValueError,
        r"kl_weight must be a number that torch.float32 can hold, got 1e\+39; use float64",
    ),
    "a cost beyond the dtype": (
        lambda: loss(epsilon=2e38, target=H),
        ValueError,
        "epsilon must give a transport cost that torch.float32 can hold, got .* use float64",
    ),
    "masses beyond the dtype": (
        lambda: w(1e30 * H, 1e30 * H.roll(1, 1), epsilon=1.0, regularizer="product"),
        ValueError,
        r"must give a transport cost .* masses of 1e\+30 and 1e\+30",
    ),
    "epsilon None": (lambda: w(epsilon=None), TypeError, "epsilon must be a number, got None"),
    "epsilon in words": (
        lambda: loss(epsilon="small"),
        TypeError,
        "epsilon must be a number, got 'small'",
    ),
    "epsilon 0 and gamma": (
        lambda: w(gamma=1.0),
        ValueError,
        r"epsilon must be positive if gamma is finite, got epsilon=0 and gamma=\(1.0, 1.0\)",
    ),
    "gamma 0": (
        lambda: w(epsilon=0.1, gamma=0.0),
        ValueError,
        r"gamma must be a positive number, or two .*, got \(0.0, 0.0\)",
    ),
    "gamma < 0": (
        lambda: relaxed(gamma=(1.0, -1.0)),
        ValueError,
        r"gamma must be a positive number, or two .*, got \(1.0, -1.0\)",
    ),
    "gamma NaN": (lambda: relaxed(gamma=NAN), ValueError, "gamma must be a positive .*got .*nan"),
    "three gammas": (
        lambda: relaxed(gamma=(1.0, 1.0, 1.0)),
        ValueError,
        r"gamma must be a positive number, or two .*, got \(1.0, 1.0, 1.0\)",
    ),
    "gamma None": (lambda: w(epsilon=0.1, gamma=None), TypeError, "gamma must be a number, got N"),
    "gamma in words": (
        lambda: w(epsilon=0.1, gamma="hi"),
        TypeError,
        "gamma must be a number, got 'hi'",
    ),
    "regularizer typo": (
        lambda: loss(regularizer="plam"),
        ValueError,
        r"regularizer must be 'plan' or 'product', got 'plam'",
    ),
    "debiased in words": (
        lambda: loss(debiased="no"),
        TypeError,
        "debiased must be True or False, got 'no'",
    ),
    "debiased each": (
        lambda: w(epsilon=0.1, debiased=torch.tensor([True, False])),
        TypeError,
        "debiased must be True or False, got tensor",
    ),
    "debiased each, of a solve": (
        lambda: wl.solve(H, H, METRIC, epsilon=0.1, debiased=torch.tensor([True, False])),
        TypeError,
        "debiased must be True or False, got tensor",
    ),
    "max_iterations beyond counting": (
        lambda: loss(target=H, max_iterations=2**70),
        ValueError,
        "max_iterations must be less than 2\\*\\*63, got 1180591620717411303424",
    ),
    "debiased and gamma": (
        lambda: w(epsilon=0.1, gamma=1.0, debiased=True),
        ValueError,
        "gamma must be infinite if debiased=True, got gamma=",
    ),
    "debiased solve": (
        lambda: wl.solve(H, H, METRIC, epsilon=0.1, debiased=True),
        ValueError,
        "debiased must be False in solve, got True",
    ),
    "tol 0": (lambda: loss(tol=0), ValueError, "tol must be positive, got 0"),
    "tol < 0": (lambda: w(epsilon=0.1, tol=-1e-6), ValueError, "tol must be positive, got -1e-06"),
    "tol NaN": (lambda: loss(tol=NAN), ValueError, "tol must be positive, got nan"),
    "tol in words": (lambda: loss(tol="tight"), TypeError, "tol must be a number, got 'tight'"),
    "no iterations": (
        lambda: loss(scaling_iterations=0),
        ValueError,
        "scaling_iterations must be at least 1, got 0",
    ),
    "half an iteration": (
        lambda: loss(scaling_iterations=0.5),
        TypeError,
        "scaling_iterations must be an integer, got 0.5",
    ),
    "iterations NaN": (
        lambda: loss(scaling_iterations=NAN),
        TypeError,
        "scaling_iterations must be an integer, got nan",
    ),
    "no max_iterations": (
        lambda: loss(max_iterations=0),
        ValueError,
        "max_iterations must be at least 1, got 0",
    ),
    "iterations with epsilon 0": (
        lambda: loss(epsilon=0, scaling_iterations=10),
        ValueError,
        "epsilon must be positive where scaling_iterations=10, got 0",
    ),
    "iterations and tol": (
        lambda: loss(scaling_iterations=10, tol=1e-3),
        ValueError,
        "scaling_iterations is the whole budget: leave out tol",
    ),
    "solver and tol": (
        lambda: loss(solver=Newton(), tol=1e-3),
        ValueError,
        "solver has its own budget: leave out tol",
    ),
    "solver by name": (
        lambda: loss(solver="newton"),
        TypeError,
        r"solver must be a solver of wassloss.transport, such as Newton\(\), got 'newton'",
    ),
    "solver class": (
        lambda: loss(solver=Newton),
        TypeError,
        r"solver must be a solver of wassloss.transport, such as Newton\(\), got <class",
    ),
    "entropic solver of an exact problem": (
        lambda: w(y=H.flip(1), solver=Newton()),
        ValueError,
        r"solver must fit the problem, got Newton\(.*\) for .*epsilon=0.*Ordinal\(4\)",
    ),
    "fixed iterations of an exact problem": (
        lambda: w(y=H.flip(1), solver=AlgorithmOne(10)),
        ValueError,
        r"solver must fit the problem, got AlgorithmOne\(.*\) for .*epsilon=0",
    ),
    "exact solver of an entropic problem": (
        lambda: w(epsilon=0.1, solver=NetworkSimplex()),
        ValueError,
        r"solver must fit the problem, got NetworkSimplex\(.*\) for .*epsilon=0.1",
    ),
    "closed form of another problem": (
        lambda: w(metric=Ordinal(4, power=2), solver=LineArea()),
        ValueError,
        r"solver must fit the problem, got LineArea\(\) for .*Ordinal\(4, power=2\)",
    ),
    "reduction typo": (
        lambda: loss(reduction="average"),
        ValueError,
        r"reduction must be 'mean', 'sum' or 'none', got 'average'",
    ),
    "kl_weight < 0": (
        lambda: loss(kl_weight=-0.1),
        ValueError,
        "kl_weight must be a finite number, at least 0, got -0.1",
    ),
    "kl_weight NaN": (
        lambda: relaxed(kl_weight=NAN),
        ValueError,
        "kl_weight must be a finite number, at least 0, got nan",
    ),
    "kl_weight inf": (
        lambda: loss(kl_weight=INF),
        ValueError,
        "kl_weight must be a finite number, at least 0, got inf",
    ),
    "kl_weight < 0 of a function": (
        lambda: wasserstein_loss(LOGITS, IDS, METRIC, epsilon=0.1, kl_weight=-1.0),
        ValueError,
        "kl_weight must be a finite number, at least 0, got -1",
    ),
    "kl_weight < 0 of a relaxed function": (
        lambda: relaxed_wasserstein_loss(LOGITS, H, METRIC, epsilon=1, gamma=1, kl_weight=-1),
        ValueError,
        "kl_weight must be a finite number, at least 0, got -1",
    ),
    "weight of the wrong shape": (
        lambda: loss(weight=torch.ones(3)),
        ValueError,
        r"weight must have shape \(4,\), got \(3,\)",
    ),
    "negative weight": (
        lambda: loss(weight=torch.tensor([1.0, 1.0, -2.0, 1.0])),
        ValueError,
        "weight must be finite and non-negative, got -2.0",
    ),
    "NaN weight": (
        lambda: relaxed(weight=torch.full((4,), NAN)),
        ValueError,
        "weight must be finite and non-negative, got nan",
    ),
    "list of weights": (
        lambda: loss(weight=[1.0] * 4),
        TypeError,
        "weight must be a floating tensor, got list",
    ),
    "integer weight": (
        lambda: loss(weight=torch.ones(4).long()),
        TypeError,
        "weight must be a floating tensor, got torch.int64",
    ),
    "weight elsewhere": (
        lambda: loss(weight=torch.ones(4, device="meta")),
        ValueError,
        r"weight must be on the ground metric's device \(cpu\), got meta",
    ),
    "sample_weight of the wrong shape": (
        lambda: weighed(torch.ones(3)),
        ValueError,
        r"sample_weight must have shape \(2,\), one weight per example, got \(3,\)",
    ),
    "sample_weight of one column": (
        lambda: weighed(torch.ones(2, 1)),
        ValueError,
        r"sample_weight must have shape \(2,\), one weight per example, got \(2, 1\)",
    ),
    "list of sample weights": (
        lambda: weighed([1.0, 2.0]),
        TypeError,
        "sample_weight must be a tensor, got list",
    ),
    "negative sample_weight": (
        lambda: weighed(torch.tensor([1.0, -2.0])),
        ValueError,
        "sample_weight must be finite and non-negative, got -2.0",
    ),
    "NaN sample_weight": (
        lambda: weighed(torch.tensor([1.0, NAN])),
        ValueError,
        "sample_weight must be finite and non-negative, got nan",
    ),
    "sample_weight elsewhere": (
        lambda: weighed(torch.ones(2, device="meta")),
        ValueError,
        r"sample_weight must be on the logits' device \(cpu\), got meta",
    ),
}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        pytest.param(*mistake, id=f"{where}: {name}")
        for where, table in {
            "prediction": PREDICTION,
            "target": TARGET,
            "cost": COST,
            "settings": SETTINGS,
        }.items()
        for name, mistake in table.items()
    ],
)
def test_a_mistake_is_named(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.compile(message, re.DOTALL)):
        call()


@pytest.mark.parametrize(
    ("ignore_index", "error", "message"),
    [
        (2**70, ValueError, f"ignore_index must be an int64, got {2**70}"),
        (-(2**63) - 1, ValueError, f"ignore_index must be an int64, got {-(2**63) - 1}"),
        (1.5, TypeError, "ignore_index must be an integer, got 1.5"),
        (1.0, TypeError, "ignore_index must be an integer, got 1.0"),
        (True, TypeError, "ignore_index must be an integer, got True"),
        ("a", TypeError, "ignore_index must be an integer, got 'a'"),
        (None, TypeError, "ignore_index must be an integer, got None"),
    ],
)
def test_ignore_index(ignore_index: Any, error: type[Exception], message: str) -> None:
    metric, x, y = wl.ground.Ordinal(4), torch.zeros(2, 4), torch.tensor([0, 1])
    makes: list[Callable[[], object]] = [
        lambda: wl.WassersteinLoss(
            metric, ignore_index=ignore_index, kl_weight=0.0, normalize_cost=False
        ),
        lambda: wl.NearestWassersteinLoss(
            metric, ignore_index=ignore_index, kl_weight=0.0, normalize_cost=False
        ),
        lambda: wl.RelaxedWassersteinLoss(metric, ignore_index=ignore_index, normalize_cost=False),
        lambda: wasserstein_loss(x, y, metric, epsilon=1.0, ignore_index=ignore_index),
        lambda: relaxed_wasserstein_loss(
            x, y, metric, epsilon=1.0, gamma=1.0, ignore_index=ignore_index
        ),
    ]
    for make in makes:
        with pytest.raises(error, match=message):
            make()


@pytest.mark.parametrize("ignore_index", [-(2**63), 2**63 - 1, np.int64(1), torch.tensor(1)])
def test_ignore_index_of_any_integer_type(ignore_index: Any) -> None:
    x, y = torch.randn(3, 4), torch.tensor([0, 1, 2])
    loss = wl.WassersteinLoss(
        wl.ground.Ordinal(4), ignore_index=ignore_index, kl_weight=0.0, normalize_cost=False
    )
    assert type(loss.ignore_index) is int
    counted = 2 if int(ignore_index) == 1 else 3
    each = wl.WassersteinLoss(
        wl.ground.Ordinal(4),
        ignore_index=ignore_index,
        reduction="none",
        kl_weight=0.0,
        normalize_cost=False,
    )
    assert int((each(x, y) != 0).sum()) == counted
