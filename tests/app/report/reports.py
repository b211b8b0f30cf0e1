"""Small reports for visual tests."""

import numpy as np

import wassloss as wl
from wassloss.app.comparison import Candidate
from wassloss.app.report import Report
from wassloss.app.report.page import Mistake
from wassloss.scores.differences import Difference


def report(metric: wl.ground.GroundMetric | None = None, one_label: bool = True) -> Report:
    """A report with two losses and two decisions, with random predictions."""
    metric = wl.ground.Ordinal([0.0, 2.0, 1.0, 4.0]) if metric is None else metric
    rng = np.random.default_rng(0)
    truth, *guesses = rng.integers(metric.size, size=(5, 200))
    distance = metric.distance().double().numpy()
    candidates = [
        Candidate(
            loss=loss,
            decision=decision,
            guess=guess,
            accuracy=(guess == truth).astype(float),
            distance=distance[guess, truth],
            versus=Difference(-0.2, -0.3, -0.1),
        )
        for (loss, decision), guess in zip(
            [
                (loss, decision)
                for decision in ("probable", "least cost")
                for loss in ("cross-entropy", "W + KL")
            ],
            guesses,
            strict=True,
        )
    ]
    mistake = Mistake("row 3", "a <b>bold</b> claim", "good", ("outstanding", "very good"))
    return Report(
        answer="Milder mistakes: by half.",
        models=candidates[:2],
        names=["cross-entropy, probable label", "W + KL, probable label"],
        candidates=candidates,
        metric=metric,
        labels=[f"label {i}" for i in range(metric.size)],
        truth=truth if one_label else None,
        header=["loss", "answer", "accuracy", "mean distance", "NLL", "change, %", ""],
        rows=[
            ["cross-entropy", "probable", "46.1 %", "1.234", "1.234", "", ""],
            [
                *("W + KL", "least cost", "44.0 %", "1.234", "1.234"),
                *("-14.3 [-21.6, -12.9]", "unclear"),
            ],
        ],
        notes=["The saved model is WassersteinClassifier(alpha=3.0, transport_weight=0.0)."],
        unit="row",
        mended=[mistake] * 2,
        made=[mistake],
    )
