"""Every public name, listed: one that is added, renamed or lost is seen here."""

from __future__ import annotations

import importlib

import pytest

import wassloss

NAMES = {
    "wassloss": """
        ConvergenceWarning LinearWassersteinLoss NearestWassersteinLoss NumberTokenLoss
        RelaxedWassersteinLoss SetTarget Solution SparseTarget TrainingPlan WassersteinClassifier
        WassersteinClassifierCV WassersteinLoss WassersteinMeasureRegressor compare load
        show_config solve train wasserstein
        boosting data decisions estimators ground language losses models scores training transport
    """,
    "wassloss.boosting": "objective",
    "wassloss.data": """
        DataWarning Dataset Definitions WordVectors clipart definitions read read_word_vectors
    """,
    "wassloss.decisions": "least_cost_label least_cost_labels top_labels",
    "wassloss.estimators": """
        Candidate Comparison FitWarning WassersteinClassifier WassersteinClassifierCV
        WassersteinMeasureRegressor compare export_onnx make_scorer
    """,
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
    "wassloss.training": """
        CheckpointError CheckpointWarning DirectoryInUseError DivergedError TrainingPlan
        load_checkpoint read_log train train_full_batch
    """,
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
def test_dir_shows_public_names_alone(module: str) -> None:
    if module in NEEDS:
        pytest.importorskip(NEEDS[module])
    found = importlib.import_module(module)
    assert dir(found) == sorted(found.__all__)


def test_rooms_that_the_package_offers_are_listed() -> None:
    rooms = {name for name in wassloss.__all__ if f"wassloss.{name}" in NAMES}
    assert rooms == set(NAMES["wassloss"].split()[-11:])


def test_there_are_no_more_than_someone_can_survey() -> None:
    """Of names that a room and the package both offer, one counts; modules do not."""
    modules = {name.rsplit(".", maxsplit=1)[-1] for name in NAMES}
    names = {name: None for listed in NAMES.values() for name in listed.split()}
    assert len(names.keys() - modules) <= 100
