"""The fitted model of the application: a classifier and the encoder of a table's columns.

A model is one file, written atomically with a SHA-256 checksum and loaded without pickle:

==========================  ======================================================================
``classifier``              the classifier's own file, as bytes
``encoder``                 skrub's pipeline in skops's format, if a column needs one
``rows``                    fingerprints of the training rows
the file's metadata         the rest of the encoder and the model's origin, as JSON
==========================  ======================================================================
"""

from __future__ import annotations

import copy
import io
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.app._files import check_replaceable, is_model
from wassloss.app._messages import columns as listed
from wassloss.app.fingerprints import Fingerprints, Overlap
from wassloss.app.labels import plain
from wassloss.app.tables import Table, is_frame
from wassloss.estimators import WassersteinClassifier, WassersteinMeasureRegressor
from wassloss.files import pack_tensors, unpack_tensors, write_file
from wassloss.ground import GroundMetric

if TYPE_CHECKING:
    from wassloss.app.encoding import Encoder

SUFFIX, NAME = ".wassloss", "model.wassloss"
_KIND, _FORMAT = "TableModel", 1
_DAMAGES = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError)


@dataclass(frozen=True, eq=False)
class TableModel:
    """A classifier and the encoder that turns a table's columns into its features.

    Features `X` are a data frame with the training columns in any order, or an array if the
    classifier was trained on one.

    Attributes:
        classifier: the fitted classifier.
        encoder: turns columns into features; None for arrays.
        trained_on: fingerprints of the training rows, if known.
        origin: how the model was made, in JSON types.
        path: the file that it was loaded from.
    """

    classifier: WassersteinClassifier
    encoder: Encoder | None = field(default=None, repr=False)
    trained_on: Fingerprints | None = field(default=None, repr=False)
    origin: dict[str, Any] = field(default_factory=dict, repr=False)
    path: Path | None = None

    @property
    def metric_(self) -> GroundMetric:
        """The ground metric, including the exponent of its costs."""
        found: GroundMetric = self.classifier.metric_
        return found

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes in the order of `predict_proba`."""
        found: NDArray[Any] = self.classifier.classes_
        return found

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, in the metric's order."""
        return tuple(str(plain(label)) for label in in_metric_order(self.classifier).tolist())

    @property
    def name(self) -> str:
        """The name of the file, or of its folder if a comparison wrote it."""
        if self.path is None:
            return "model"
        return self.path.resolve().parent.name if self.path.name == NAME else self.path.stem

    def features(self, X: Any) -> Any:
        """The classifier's features of a frame, a table or an array."""
        if not (isinstance(X, Table) or is_frame(X)):
            return X if self.encoder is None else self._named(X)
        from wassloss.app.encoding import Encoder

        table = X if isinstance(X, Table) else Table.of(X)
        encoder = self.encoder
        if encoder is None:  # an estimator saved by itself
            names = getattr(self.classifier, "feature_names_in_", None)
            encoder = Encoder.of_numbers(table, names, self.classifier.n_features_in_)
        found = encoder.transform(table)
        return found if hasattr(self.classifier, "feature_names_in_") else found.to_numpy()

    def _named(self, X: Any) -> Any:
        """Features of an array whose columns are in the training order."""
        import pandas as pd

        columns, array = cast("Encoder", self.encoder).columns, np.asarray(X)
        if array.ndim != 2 or array.shape[1] != len(columns) or array.dtype.kind not in "fiub":
            raise ValueError(
                f"X must be a data frame with {listed(columns)}, or a numeric array of shape "
                f"(rows, {len(columns)}), got {array.dtype} of shape {array.shape}"
            )
        return self.features(pd.DataFrame(array, columns=list(columns)))

    def predict(self, X: Any) -> NDArray[Any]:
        """One class per row, by the classifier's decision rule."""
        found: NDArray[Any] = self.classifier.predict(self.features(X))
        return found

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities `(rows, labels)`, in the order of `classes_`."""
        found: NDArray[np.float64] = self.classifier.predict_proba(self.features(X))
        return found

    def predict_top(self, X: Any, k: int) -> NDArray[Any]:
        """The `k` best classes per row, best first, `(rows, k)`."""
        found: NDArray[Any] = self.classifier.predict_top(self.features(X), k)
        return found

    def score(self, X: Any, y: Any) -> float:
        """Accuracy."""
        return self.classifier.score(self.features(X), y)

    def logits(self, X: Any) -> Tensor:
        """Log-probabilities `(rows, labels)` in the metric's order."""
        return log_probabilities(self.classifier, self.features(X))

    def overlap(self, X: Any) -> Overlap | None:
        """Count the rows that the model was trained on; None if it has no fingerprints."""
        return None if self.trained_on is None else self.trained_on.overlap(self.features(X))

    def with_decision(self, decision: str) -> TableModel:
        """The same model with another decision rule: ``"probable"`` or ``"least_cost"``."""
        other = copy.copy(self.classifier)
        other.decision = decision
        return replace(self, classifier=other)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file that `load` reads.

        Raises:
            ValueError: the path is a file that wassloss did not write.
        """
        check_replaceable(path, "a model", is_model)
        inner = io.BytesIO()
        self.classifier.save(inner)
        tensors = {"classifier": _tensor(inner.getvalue())}
        about: dict[str, Any] = {"kind": _KIND, "format": _FORMAT, "origin": self.origin}
        if self.encoder is not None:
            from wassloss.app import encoding_file

            about["encoder"] = encoding_file.to_json(self.encoder)
            if self.encoder.others is not None:
                tensors["encoder"] = _tensor(encoding_file.pack(self.encoder.others))
        if (known := self.trained_on) is not None:
            tensors["rows"] = torch.from_numpy(known.values.view(np.int64))
            about["trained_on"] = {"rows": known.rows, "twins": known.twins}
        write_file(path, pack_tensors(tensors, about))


Model = TableModel | WassersteinClassifier | WassersteinMeasureRegressor


def load(path: str | os.PathLike[str], device: str = "cpu") -> Model:
    """Load a model written by ``wassloss train``, ``wassloss compare`` or an estimator's ``save``.

    Nothing is unpickled, and damaged files raise an error.

    Args:
        path: a file, or the output folder of ``wassloss compare``.
        device: where to predict.

    Returns:
        The estimator; or a :class:`~wassloss.app.model.TableModel`, which predicts from data frames
        with the training columns in any order.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is damaged or is not a model.

    >>> import tempfile, wassloss as wl
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     wl.WassersteinClassifier().fit(X, y).save(f"{folder}/iris.model")
    ...     wl.load(f"{folder}/iris.model").predict(X[:3])
    array([0, 0, 0])
    """
    place = Path(path)
    if place.is_dir():
        place = place / NAME
    content = place.read_bytes()
    try:
        tensors, about = unpack_tensors(content)
        if about.get("kind") == _KIND:
            return _unpacked(tensors, about, device, place)
    except (*_DAMAGES, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{place} is not a saved model: {reason}") from error
    kind = WassersteinMeasureRegressor if "Regressor" in str(about.get("kind")) else None
    found: Model = (kind or WassersteinClassifier).load(place, device)
    return found


def load_model(path: str | os.PathLike[str]) -> TableModel:
    """Load a classifier as a `TableModel`, without an encoder if an estimator was saved.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is damaged or holds no classifier.
    """
    found = load(path)
    if isinstance(found, WassersteinMeasureRegressor):
        raise ValueError(
            f"{path} is a saved {type(found).__name__}, expected a classifier; predict with it in "
            "Python: wassloss.load"
        )
    if isinstance(found, TableModel):
        return found
    return TableModel(found, path=Path(path))


def in_metric_order(classifier: WassersteinClassifier) -> NDArray[Any]:
    """The classes of a fitted classifier, in the order of its metric's labels."""
    if classifier.classes is not None:
        return np.asarray(classifier.classes)
    names = classifier.metric_.labels
    return np.asarray(classifier.classes_ if names is None else names)


def log_probabilities(classifier: WassersteinClassifier, X: Any) -> Tensor:
    """A classifier's log-probabilities, in the order of its metric's labels."""
    place = {label: i for i, label in enumerate(classifier.classes_.tolist())}
    order = [place[label] for label in in_metric_order(classifier).tolist()]
    return torch.from_numpy(classifier.predict_log_proba(X)[:, order])


def _unpacked(
    tensors: dict[str, Tensor], about: dict[str, Any], device: str, path: Path
) -> TableModel:
    if about["format"] != _FORMAT:
        raise ValueError(f"format {about['format']} is unknown, this version reads {_FORMAT}")
    encoder, known = None, None
    if "encoder" in about:
        from wassloss.app import encoding_file

        pipeline = tensors["encoder"].numpy().tobytes() if "encoder" in tensors else None
        encoder = encoding_file.unpack(about["encoder"], pipeline)
    if "rows" in tensors:
        known = Fingerprints(tensors["rows"].numpy().view(np.uint64), **about["trained_on"])
    inner = io.BytesIO(tensors["classifier"].numpy().tobytes())
    classifier = WassersteinClassifier.load(inner, device)
    if encoder is not None and len(encoder.feature_names) != classifier.n_features_in_:
        raise ValueError("its encoder and classifier do not match")
    return TableModel(classifier, encoder, known, dict(about["origin"]), path)


def _tensor(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)
