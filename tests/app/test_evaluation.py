"""Scores of examples."""

import numpy as np
import pytest
import torch

import wassloss as wl
from wassloss.app.evaluation import example_scores


def test_scores_that_are_no_means_are_those_of_all_examples() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(30, 5, generator=generator, dtype=torch.float64)
    grades = torch.randint(5, (30,), generator=generator)
    found = example_scores(logits, grades, wl.ground.Ordinal(5))
    kappa = float(wl.scores.quadratic_weighted_kappa(logits, grades))
    assert found.kind == "ordered"
    assert found.mean("kappa") == pytest.approx(kappa)
    assert np.isnan(found.standard_error("kappa"))
    off = float((logits.argmax(1) - grades).abs().double().mean())
    assert found.mean("mean_distance") == pytest.approx(off)
    shown = found.to_json()
    assert shown["scores"]["kappa"] == pytest.approx(kappa)
    assert shown["standard_errors"]["kappa"] is None
    assert shown["examples"] == 30
