"""What `wassloss train` and `wassloss compare` are asked to learn: data and a ground metric."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from wassloss._checks import check_number, check_seed, narrowed
from wassloss.data import Dataset
from wassloss.data._inputs import KNOWN_PARTS
from wassloss.data.files import BUILT_IN, read_wanted
from wassloss.data.labels import numbers
from wassloss.data.raw_table import RawTable
from wassloss.data.table import Wanted
from wassloss.estimators.splitting import check_apart, check_known, held_out
from wassloss.ground import Discrete, GroundMetric
from wassloss.ground.storage import to_arrays
from wassloss.targets import is_class_ids

_MADE = {"ordinal": "ordinal", "discrete": None}  # metrics that the classes make by themselves


@dataclass(frozen=True, kw_only=True)
class Task:
    """Which data, read how, with which ground metric.

    Attributes:
        data: a file, a folder of Parquet files, or ``"clipart"``.
        metric: a file of a ground metric, ``"ordinal"``, ``"discrete"``, or None for the one that
            comes with the data.
        order: the labels in their order, if neither the data nor the metric say.
        label_column, features, drop, group, missing: of a table, as in
            :func:`wassloss.data.read`, where `features` are `feature_names`.
        test: share of the examples to hold out, if the data have no part ``"test"``.
        seed: which examples these are.
    """

    data: str
    metric: str | None = None
    order: tuple[str, ...] | None = None
    label_column: str | None = None
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    group: str | None = None
    missing: str = "impute"
    test: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if check_seed("seed", self.seed) >= 2**32:
            raise ValueError(f"seed must be in 0..2**32 - 1, as in scikit-learn, got {self.seed}")
        if not 0 <= check_number("test", self.test) < 1:
            raise ValueError(f"test must be at least 0 and less than 1, got {self.test}")

    def examples(self) -> tuple[Dataset, GroundMetric | str | None, NDArray[Any] | None]:
        """Data with a part to train on, if not all; metric and classes as estimators take them."""
        ground = None
        if self.metric is not None and self.metric not in _MADE:
            ground = GroundMetric.load(self.metric)
        names = self.order if ground is None or ground.labels is None else ground.labels
        asked = self.label_column, self.features, self.drop, self.group, self.missing
        data = read_wanted(self.data, Wanted(names, *asked, divide=self.divided))
        listed = names is not None or self.data in BUILT_IN
        if self.metric is None:
            ground = data.metric
            if ground is None:
                raise ValueError(
                    f"{self.data} comes without a ground metric: pass metric (--metric), a file of "
                    "`wassloss metric build`, ordinal or discrete"
                )
        names = data.label_names
        any_order = isinstance(ground, Discrete) or self.metric == "discrete"
        if not (listed or any_order) and numbers(names or ()) is None:
            first = ",".join((names or ())[:6])
            raise ValueError(
                f"the order of the labels is not known, because {self.data} only names them: pass "
                f"order, such as --order {first}{',…' if data.label_count > 6 else ''}"
            )
        # Numbers are ids of a metric without names, if the estimator thinks so.
        by_id = ground is not None and ground.labels is None and not listed
        if ground is not None and by_id and not is_class_ids(data.target):
            data = data.with_labels([str(i) for i in range(ground.size)])
        classes = None if by_id or names is None else data.classes
        metric = _MADE[self.metric or ""] if ground is None else ground
        narrowed("features", data.features, torch.float32)  # which most models are in
        unused = [name for name in data.parts if name not in KNOWN_PARTS]
        if unused and "train" in data.parts:
            warnings.warn(
                f"parts that are not used: {', '.join(unused)}; train is trained on, test and "
                "validation are scored",
                stacklevel=3,
            )
        data = self.divided(data)
        if ground is None and not listed and is_class_ids(data.target) and "test" in data.parts:
            held = torch.isin(torch.arange(len(data)), data.parts["test"]).numpy()
            check_known(data.y[~held], data.y[held])
        return data, metric, classes

    def columns_of(self, data: Dataset) -> RawTable:
        """What becomes of the columns of a table like the one that was read."""
        found = data.raw or RawTable.of_numbers(data.feature_names, data.features.shape[1])
        ignored = (*self.drop, *([] if self.group is None else [self.group]))
        return replace(found, label_column=self.label_column, ignored=ignored)

    def config(self) -> dict[str, Any]:
        """As JSON holds it; files by their whole paths, so that they are found from anywhere."""
        files = {"data": self.data, "metric": None if self.metric in _MADE else self.metric}
        whole = {
            name: str(Path(file).resolve())
            for name, file in files.items()
            if file is not None and Path(file).exists()
        }
        return asdict(self) | whole

    @classmethod
    def from_config(cls, values: Mapping[str, Any]) -> Task:
        """The task that `config` describes; TypeError for anything else."""
        lists = {name: tuple(v) for name, v in values.items() if isinstance(v, list)}
        return cls(**{**values, **lists})

    def divided(self, data: Dataset) -> Dataset:
        """Data with a part ``"test"``, if there is none and a share is to be held out."""
        if data.parts and "train" not in data.parts:
            raise ValueError(
                f"data with parts must have a part named train, got {', '.join(data.parts)}: "
                "rename one of them, or leave parts out to train on everything; if the column "
                "'part' says something else, rename it"
            )
        if "test" in data.parts and data.groups is not None:
            others = [rows.numpy() for name, rows in data.parts.items() if name != "test"]
            tested = data.parts["test"].numpy()
            check_apart(data.groups.numpy(), np.concatenate(others), tested)
        if not self.test or "test" in data.parts:
            return data
        rows = data.parts["train"] if data.parts else torch.arange(len(data))
        classes = data.y[rows.numpy()] if is_class_ids(data.target) else None
        groups = None if data.groups is None else data.groups[rows].numpy()
        drawn = held_out(classes, len(rows), self.test, groups, self.seed)
        train, held = (rows[torch.from_numpy(some)] for some in drawn)
        return replace(data, parts={**data.parts, "train": train, "test": held})


def fingerprint(given: Dataset | GroundMetric) -> str:
    """What changes with the examples to train on, or with a metric."""
    if isinstance(given, GroundMetric):
        arrays = list(to_arrays(given).values())
    else:
        own = given.part("train") if "train" in given.parts else given
        y = own.y
        of_y = (y.indptr, y.indices, y.data) if sparse.issparse(y) else (np.array(y, dtype=str),)
        arrays = [own.features.numpy(), *of_y]
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr((array.shape, array.dtype)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
