"""Run a comparison of losses and decision rules on features and classes, or on a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length

from wassloss.app._messages import check_choice
from wassloss.app.comparison.answer import RULE, Comparison
from wassloss.app.comparison.tuning import (
    BATCH,
    FOLDS,
    HIDDEN,
    STEPS,
    Jobs,
    Progress,
    Work,
    candidates,
    folds_of,
    with_settings,
)
from wassloss.app.encoding import Encoder
from wassloss.app.examples import Examples, ReadOptions
from wassloss.app.fingerprints import Fingerprints
from wassloss.app.metrics import Metric as TableMetric
from wassloss.app.model import TableModel, in_metric_order
from wassloss.app.splitting import Fold, check_apart, check_known, divided, held_out
from wassloss.app.tables import Table, is_frame
from wassloss.app.training import read_task
from wassloss.estimators import WassersteinClassifier
from wassloss.ground import GroundMetric, Ordinal

MODELS = ("linear", "mlp")
Metric = GroundMetric | NDArray[Any] | str | None
Classes = NDArray[Any] | Sequence[Any] | None


@dataclass(frozen=True)
class TableComparison:
    """A comparison on a table.

    Attributes:
        found: its result.
        examples: the rows of the table that have a label, which `found.held` indexes.
    """

    found: Comparison
    examples: Examples = field(repr=False)


def compare(
    X: Any,
    y: Any,
    metric: Metric = None,
    *,
    classes: Classes = None,
    model: str = "linear",
    test: float | Sequence[int] | NDArray[np.int64] = 0.25,
    groups: Any = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Comparison:
    """Tune cross-entropy, W + KL and softened labels equally, and score them on held-out rows.

    Each loss has eight settings. They are chosen by the mean distance in cross-validation (on one
    fold from 5000 rows on), once for the most probable label and once for the label of least
    expected cost. If labels are on a line, a ridge regression rounded to the nearest label is tuned
    too. Nothing is chosen on the held-out rows.

    Args:
        X: features `(n, d)`, dense or `scipy.sparse`; or a data frame, which may have text, dates
            and missing values. The encoder of a frame's columns is fitted to the training rows, and
            the best model predicts from such frames.
        y: class ids `(n,)`. The categories of an ordered pandas column become `classes` if the
            metric is ``"ordinal"``.
        metric: as in :class:`~wassloss.estimators.WassersteinClassifier`.
        classes: as in :class:`~wassloss.estimators.WassersteinClassifier`.
        model: ``"linear"``, or ``"mlp"`` with a hidden layer of 64 units, trained for 500 steps
            of 250 rows.
        test: the share of rows to hold out, or the indices of these rows.
        groups: the group of each row, `(n,)`; rows of a group are held out together. If `test` is
            indices, no group may have both training and held-out rows.
        n_jobs: the number of processes, as in joblib.
        random_state: random seed for the split.
        device: where to train, as in :class:`~wassloss.estimators.WassersteinClassifier`.
        progress: called with the numbers of finished and of all pieces of work.

    On several machines, with a Dask cluster (`pip install distributed`)::

        with distributed.Client("scheduler:8786"), joblib.parallel_config("dask"):
            found = wl.compare(X, y, metric)

    >>> import numpy as np, wassloss as wl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=400), [-1, 0, 1])
    >>> found = wl.compare(X, y, "ordinal")
    >>> found.rows
    (300, 100)
    """
    return _compare(
        X,
        y,
        metric,
        classes=classes,
        model=model,
        test=test,
        groups=groups,
        seed=random_state,
        device=device,
        jobs=Jobs(n_jobs, progress),
        listed=classes is not None,
    )


def compare_table(
    table: Table,
    metric: TableMetric | str,
    *,
    options: ReadOptions | None = None,
    model: str = "linear",
    test: float = 0.25,
    n_jobs: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> TableComparison:
    """Compare losses and decision rules on a table, as :func:`compare` does on arrays.

    The rows of its part ``"test"`` are held out, or a share if there is none.
    """
    options = options or ReadOptions()
    task = read_task(table, metric, options)
    if task.examples.ids is None:
        raise ValueError(
            "data must have one label per example to be compared: `wassloss train` takes several"
        )
    examples = task.examples
    held = divided(examples, test, seed)["test"]
    found = _compare(
        examples.table,
        examples.y,
        task.metric,
        classes=task.classes,
        model=model,
        test=held,
        groups=examples.groups,
        seed=seed,
        device=device,
        jobs=Jobs(n_jobs, progress),
        strict=options.missing == "error",
        ignored=examples.ignored,
        listed=options.order is not None,
    )
    about = {
        "data": table.source,
        "options": asdict(options),
        "label_column": examples.label_column,
    }
    best = replace(found.best, origin={**found.best.origin, **about})
    return TableComparison(replace(found, best=best), examples)


def _compare(
    X: Any,
    y: Any,
    metric: Any,
    *,
    classes: Any,
    model: str,
    test: Any,
    groups: Any,
    seed: int,
    device: str,
    jobs: Jobs,
    strict: bool = False,
    ignored: Sequence[str] = (),
    listed: bool,
) -> Comparison:
    check_choice("model", model, MODELS)
    if not 0 <= seed < 2**32:
        raise ValueError(f"random_state must be in 0..2**32 - 1, got {seed}")
    if np.ndim(test) == 0 and not 0 < cast(float, test) < 1:
        raise ValueError(f"test must be more than 0 and less than 1, got {test}")
    made = metric is None or isinstance(metric, str)
    if classes is None and isinstance(metric, str):
        classes = _ordered_categories(y)
        listed = classes is not None
    table = X if isinstance(X, Table) else Table.of(X) if is_frame(X) else None
    if table is None:
        X = check_array(X, accept_sparse="csr", dtype=(np.float64, np.float32))
    check_consistent_length(X if table is None else table.frame, y)
    whole = WassersteinClassifier(metric, classes=classes, random_state=seed, device=device)
    ground, order, ids = _labels(whole, y)
    together = None if groups is None else np.unique(groups, return_inverse=True)[1]
    if together is not None and len(together) != len(ids):
        raise ValueError(f"groups must have {len(ids)} entries, got {len(together)}")
    train, held = _divided(test, ids, together, seed)
    _check_enough(train, together)
    if made and not listed:
        check_known(order[ids[train]], order[ids[held]])
    encoder = None
    if table is not None:
        encoder = Encoder.fit(table, train, strict=strict, ignored=ignored)
        X = encoder.transform(table)
    x = np.asarray(X) if table is not None else X
    if model == "mlp":
        passes = ceil(STEPS * min(BATCH, len(train)) / len(train))
        whole.set_params(hidden_layer_sizes=HIDDEN, batch_size=BATCH, max_iter=passes)
    inside = None if together is None else together[train]
    work = Work(
        with_settings(whole, {"metric": ground, "classes": order}),
        *(x[train], ids[train], x[held], ids[held]),
        folds=list(folds_of(ids[train], inside, seed)),
        groups=None if together is None else together[held],
    )
    found = candidates(work, jobs)
    best = min(found, key=lambda c: c.validation)
    if isinstance(ground, Ordinal):
        found.append(work.ridge(found[0].distance))
    kept = with_settings(whole, {**best.settings, "decision": RULE[best.decision]})
    kept.fit(X, order[ids])
    saved = TableModel(kept, encoder, Fingerprints.of(X))
    rows = (len(train), len(held))
    compared = Comparison(tuple(found), saved, rows, held, ids[held])
    origin = {"made_by": "compare", "answer": compared.answer, "settings": best.settings}
    return replace(compared, best=replace(saved, origin=origin))


def _labels(
    whole: WassersteinClassifier, y: Any
) -> tuple[GroundMetric, NDArray[Any], NDArray[np.int64]]:
    """The metric, the class of each of its labels, and the label id of each row.

    The classifier maps classes to labels, so it is fitted to constant features for one iteration.
    """
    if getattr(y, "ndim", 1) == 2 and y.shape[1] > 1:
        raise ValueError("y must hold class ids (n,) to be compared, got a matrix")
    every = np.asarray(y).ravel()
    first = with_settings(whole, {"max_iter": 1, "tol": 1e300, "device": "cpu"})
    first.fit(np.zeros((len(every), 1)), y)
    order = in_metric_order(first)
    place = {label: i for i, label in enumerate(order.tolist())}
    return first.metric_, order, np.array([place[label] for label in every.tolist()])


def _ordered_categories(y: Any) -> NDArray[Any] | None:
    """The categories of an ordered pandas column, in their order; None for anything else."""
    kind: Any = getattr(y, "dtype", None)
    return np.asarray(kind.categories) if getattr(kind, "ordered", False) else None


def _divided(test: Any, target: NDArray[Any], groups: NDArray[np.int64] | None, seed: int) -> Fold:
    """The training and the held-out rows."""
    every = np.arange(len(target))
    if np.ndim(test) == 0:
        return held_out(target, len(target), test, groups, seed)
    held = np.unique(test)
    train = np.setdiff1d(every, held)
    some = 0 < len(train) == len(target) - len(held) < len(target)
    if held.dtype.kind not in "iu" or not some:
        raise ValueError(
            f"test must be a share, or some but not all rows in 0..{len(target) - 1}, got {held}"
        )
    if groups is not None:
        check_apart(groups, train, held)
    return train, held


def _check_enough(train: NDArray[np.int64], groups: NDArray[np.int64] | None) -> None:
    """Refuse fewer training rows, or groups, than folds."""
    count, what = len(train), "rows"
    if groups is not None:
        count, what = len(np.unique(groups[train])), "groups"
    if count < FOLDS:
        raise ValueError(f"X must have at least {FOLDS} {what} that are not held out, got {count}")
