"""scikit-learn: scaling, feature products and the classifier in a pipeline with grid search."""

from __future__ import annotations

from grades import GRADES, graded_patients
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import wassloss as wl


def main() -> tuple[dict[str, float], float]:
    """Search; return the best parameters, and the mean error on unseen patients."""
    x, y = (part.numpy() for part in graded_patients())
    pipeline = make_pipeline(
        StandardScaler(),
        PolynomialFeatures(2, interaction_only=True, include_bias=False),
        wl.WassersteinClassifier(wl.ground.Ordinal(GRADES), decision="least_cost"),
    )
    search = GridSearchCV(
        pipeline,
        {
            "wassersteinclassifier__kl_weight": [0.1, 1.0],
            "wassersteinclassifier__alpha": [0.01, 0.1],
        },
        scoring="neg_mean_absolute_error",  # in grades
        cv=3,
    )
    search.fit(x[:300], y[:300])
    return search.best_params_, -search.score(x[300:], y[300:])


if __name__ == "__main__":
    best, off = main()
    print(f"{best}: {off:.2f} grades off")
