"""The list of all public names, to notice any that is added, renamed or removed."""

from __future__ import annotations

import importlib

import pytest

import wassloss

NAMES = {
    "wassloss": """
        ConvergenceWarning LeastCostClassifier LinearWassersteinLoss NearestWassersteinLoss
        NumberTokenLoss RelaxedWassersteinLoss SetTarget Solution SparseTarget WassersteinClassifier
        WassersteinClassifierCV WassersteinLoss WassersteinMeasureRegressor compare load
        show_config solve wasserstein
        boosting datasets decisions estimators files ground language losses models scores transport
    """,
    "wassloss.boosting": "objective",
    "wassloss.datasets": "load_clipart load_definitions",
    "wassloss.decisions": """
        Cutoffs Guarantee Temperature least_cost_label least_cost_labels top_labels
    """,
    "wassloss.estimators": """
        DivergedError FitWarning LeastCostClassifier WassersteinBoostingClassifier
        WassersteinClassifier WassersteinClassifierCV WassersteinMeasureRegressor export_onnx
        fit_path make_scorer
    """,
    "wassloss.files": "pack_tensors read_npz unpack_tensors write_file write_npz",
    "wassloss.ground": """
        Cost Discrete Embedding Graph Grid GroundMetric Matrix Ordinal Subset Tree taxonomy
    """,
    "wassloss.language": "LinearWassersteinLoss NumberTokenLoss",
    "wassloss.losses": """
        NearestWassersteinLoss RelaxedWassersteinLoss WassersteinLoss baselines solve wasserstein
    """,
    "wassloss.losses.baselines": """
        CORALLoss CORNLoss CumulativeJensenShannonLoss ExpectedCostLoss
        HierarchicalCrossEntropyLoss KLLoss PerExampleLoss PoissonLoss QuadraticFormLoss
        SoftLabelLoss SquaredEMDLoss WassersteinDiceLoss WeightedKappaLoss
    """,
    "wassloss.models": "Linear LogMass MLP MeasureModel",
    "wassloss.scores": """
        accuracy average_mae brier_score canberra chebyshev clark cosine
        distance_at_k expected_calibration_error hierarchical_fbeta intersection kl_divergence
        maximum_mae mean_absolute_error mean_wasserstein mistake_severity
        negative_log_likelihood off_by_one_accuracy paired_difference precision_at_k
        quadratic_weighted_kappa ranked_probability_score ranking_auc recall_at_k top_k_cost
    """,
    "wassloss.scores.accumulators": "Accumulator",
    "wassloss.transport": """
        ConvergenceWarning Newton Sinkhorn Solution Status
    """,
}
NEEDS = {"wassloss.scores.accumulators": "torchmetrics"}


@pytest.mark.parametrize("module", NAMES)
def test_public_names(module: str) -> None:
    if module in NEEDS:
        pytest.importorskip(NEEDS[module])
    found = importlib.import_module(module)
    assert sorted(found.__all__) == sorted(NAMES[module].split())
    for name in found.__all__:
        assert getattr(found, name) is not None


@pytest.mark.parametrize("module", NAMES)
def test_dir_shows_only_public_names(module: str) -> None:
    if module in NEEDS:
        pytest.importorskip(NEEDS[module])
    found = importlib.import_module(module)
    assert dir(found) == sorted(found.__all__)


def test_exported_packages_are_listed() -> None:
    rooms = {name for name in wassloss.__all__ if f"wassloss.{name}" in NAMES}
    assert rooms == set(NAMES["wassloss"].split()[-11:])


def test_the_number_of_public_names_is_limited() -> None:
    """Names that a package and wassloss both export count once; modules do not count."""
    modules = {name.rsplit(".", maxsplit=1)[-1] for name in NAMES}
    names = {name: None for listed in NAMES.values() for name in listed.split()}
    assert len(names.keys() - modules) <= 100
