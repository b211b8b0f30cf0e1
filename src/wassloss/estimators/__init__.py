"""scikit-learn estimators: `fit` and `predict` with a Wasserstein loss inside.

>>> from sklearn.datasets import load_iris
>>> import wassloss as wl
>>> X, y = load_iris(return_X_y=True)
>>> wl.WassersteinClassifier().fit(X, y).score(X, y) > 0.9
True

They are imported on first use, so that `import wassloss` does not load scikit-learn.
"""

from wassloss.estimators.base import FitWarning
from wassloss.estimators.boosting import WassersteinBoostingClassifier
from wassloss.estimators.classifier import WassersteinClassifier
from wassloss.estimators.least_cost import LeastCostClassifier
from wassloss.estimators.objective import DivergedError
from wassloss.estimators.onnx import export_onnx
from wassloss.estimators.regressor import WassersteinMeasureRegressor
from wassloss.estimators.scoring import make_scorer
from wassloss.estimators.search import WassersteinClassifierCV, fit_path

__all__ = [
    "DivergedError",
    "FitWarning",
    "LeastCostClassifier",
    "WassersteinBoostingClassifier",
    "WassersteinClassifier",
    "WassersteinClassifierCV",
    "WassersteinMeasureRegressor",
    "export_onnx",
    "fit_path",
    "make_scorer",
]


def __dir__() -> list[str]:
    return __all__
