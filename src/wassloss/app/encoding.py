"""From the columns of a frame to features, as skrub and scikit-learn make them.

What becomes of a column is decided on the rows to train on, kept with the model, and done again to
the rows that it predicts. Numbers stay as they are, with the median for a gap and a feature that
says so. Dates, categories and texts of many levels go through skrub's ``TableVectorizer``; skrub is
imported only for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from wassloss.app import columns
from wassloss.app._messages import check_columns, named_errors, shown, warn
from wassloss.app._messages import columns as listed
from wassloss.app.tables import Place, Table

if TYPE_CHECKING:
    import pandas as pd

_RARE = 0.01  # of the rows: levels of fewer become one …
_RARE_ROWS, _RARE_SHARE = 10, 0.05  # … and of fewer than so many rows, or this share of a few
_LEVELS = 40  # of a category; a column with more is text
_PIECES, _WIDTH = 1024, 30  # n-grams of all texts that count, and features of a text
_COUNTED = 10  # rows, numbered one by one


@dataclass(frozen=True, eq=False)
class Encoder:
    """How to make features of a table's columns.

    Attributes:
        numbers, dates, texts: the columns of each kind.
        ignored: others that are not features, and are not missed.
        strict: whether nothing may be missing.
        medians: of the numbers.
        gaps: which numbers may be missing, and have a feature that says so.
        others: skrub's pipeline for dates and texts, or None without any.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"height": [1.0, None, 3.0, 8.0], "age": [4, 5, 6, 9]})
    >>> encoder = Encoder.fit(Table.of(frame), rows=[0, 1, 2])
    >>> encoder.transform(Table.of(frame))
       height  age  height is missing
    0     1.0  4.0                0.0
    1     2.0  5.0                1.0
    2     3.0  6.0                0.0
    3     8.0  9.0                0.0
    """

    numbers: tuple[str, ...]
    dates: tuple[str, ...]
    texts: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    strict: bool = False
    medians: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False)
    gaps: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, bool), repr=False)
    others: Any = field(default=None, repr=False)

    @classmethod
    def fit(
        cls,
        table: Table,
        rows: Sequence[int] | NDArray[np.int64] | None = None,
        *,
        strict: bool = False,
        ignored: Sequence[str] = (),
    ) -> Encoder:
        """Decide what becomes of each column by some of the rows, by default by all.

        Args:
            table: whose columns are all features.
            rows: the rows to train on.
            strict: refuse gaps.
            ignored: columns of similar tables that are not features.
        """
        with named_errors(table.source):
            return cls._fitted(table, rows, strict, tuple(ignored))

    @classmethod
    def _fitted(cls, table: Table, rows: Any, strict: bool, ignored: tuple[str, ...]) -> Encoder:
        own = table.frame if rows is None else table.frame.iloc[np.asarray(rows)]
        found: dict[str, list[str]] = {"number": [], "date": [], "text": []}
        useless = []
        for name in own.columns:
            if kind := _decided(own[name], table.place, strict):
                found[kind].append(name)
            else:
                useless.append(name)
        if useless:
            why = "one value in all rows to train on, or only texts of very few rows"
            warn(f"leaving out {listed(useless)}: {why}")
        if not any(found.values()):
            raise ValueError("it must have a column whose values differ, got none")
        numbers, dates, texts = map(tuple, found.values())
        self = cls(numbers, dates, texts, (*ignored, *useless), strict)
        values = self._numbers(own, table.place)
        others = None
        if self.dates or self.texts:
            frame = self._others(own, table.place)
            others = _pipeline(frame, self.texts).fit(frame)
        gaps = np.asarray(np.isnan(values).any(axis=0))
        medians = np.nanmedian(values, axis=0) if numbers else np.empty(0)
        return replace(self, medians=medians, gaps=gaps, others=others)

    @classmethod
    def of_numbers(cls, table: Table, names: Sequence[str] | None, count: int) -> Encoder:
        """Features as they are: columns of these names or, without names, those of the table."""
        if names is None:
            others = ("label", "labels", "weights", "part")
            names = [name for name in table.frame.columns if name not in others]
            if len(names) != count:
                raise ValueError(f"{table.source} must have {count} columns, got {len(names)}")
            warn("columns go by position, as the model was trained on ones without names")
        names = tuple(map(str, names))
        return cls(names, (), (), (), True, np.zeros(len(names)), np.zeros(len(names), bool))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it needs."""
        return self.numbers + self.dates + self.texts

    @property
    def feature_names(self) -> list[str]:
        """The names of the features."""
        missing = [f"{name} is missing" for name in np.array(self.numbers, object)[self.gaps]]
        more = [] if self.others is None else self.others.get_feature_names_out().tolist()
        return [*self.numbers, *missing, *more]

    def transform(self, table: Table) -> pd.DataFrame:
        """Features `(rows, features)`; columns are found by name, in any order.

        Raises:
            ValueError: columns are missing, or hold what is no value of their kind.
        """
        with named_errors(table.source):
            return self._transformed(table)

    def _transformed(self, table: Table) -> pd.DataFrame:
        import pandas as pd

        names = list(table.frame.columns)
        check_columns(names, self.columns)
        if extra := [name for name in names if name not in {*self.columns, *self.ignored}]:
            warn(f"ignoring {listed(extra)}, which the model was not trained on")
        parts = [self._filled(self._numbers(table.frame, table.place))]
        if self.others is not None:
            frame = self._others(table.frame, table.place)
            self._warn_of_unseen(frame)
            parts.append(self.others.transform(frame))
        return pd.DataFrame(np.hstack(parts), columns=self.feature_names)

    def _filled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers without gaps, by an imputer fitted to what was learned from the rows."""
        if not self.numbers:
            return values
        rows = np.stack([self.medians, np.where(self.gaps, np.nan, self.medians)])
        imputer = SimpleImputer(strategy="median", add_indicator=True).fit(rows)
        found: NDArray[np.float64] = imputer.transform(values)
        return found

    def _numbers(self, frame: pd.DataFrame, place: Place) -> NDArray[np.float64]:
        found = np.empty((len(frame), len(self.numbers)))
        for i, name in enumerate(self.numbers):
            found[:, i] = columns.numbers(frame[name], place)
            if self.strict:
                _refuse_gaps(frame[name], np.isnan(found[:, i]), place)
        return found

    def _others(self, frame: pd.DataFrame, place: Place) -> pd.DataFrame:
        """Dates, and texts as categories, whose words skrub does not take for anything else."""
        import pandas as pd

        made = {name: columns.dates(frame[name], place) for name in self.dates}
        made |= {name: columns.words(frame[name]).astype("category") for name in self.texts}
        if self.strict:
            for name, values in made.items():
                _refuse_gaps(frame[name], values.isna().to_numpy(), place)
        return pd.DataFrame(made)

    def _warn_of_unseen(self, frame: pd.DataFrame) -> None:
        """Warn of levels that training never saw, if rare levels are not kept as one."""
        made = self.others.named_steps["tablevectorizer"].transformers_
        for name in self.texts:
            one_hot = made[name]
            if isinstance(one_hot, OneHotEncoder) and one_hot.infrequent_categories_[0] is None:
                known = set(one_hot.categories_[0].tolist())
                unseen = sorted(set(frame[name].cat.categories) - known)
                gaps = frame[name].isna().any() and all(isinstance(one, str) for one in known)
                if unseen or gaps:
                    what = f"holds {shown(unseen, 5)}" if unseen else "has gaps"
                    warn(
                        f"column {name!r} {what}, which training never saw: its features are all 0 "
                        "there"
                    )


def _decided(values: pd.Series[Any], place: Place, strict: bool) -> columns.Kind | None:
    """The kind of a column; None where it says nothing."""
    cleaned = columns.without_gaps(values) if not columns.is_list(values) else values
    missing = cleaned.isna().to_numpy()
    if strict:
        _refuse_gaps(values, missing, place)
    if missing.all():
        return None
    kind = columns.kind_of(values, place)
    if not missing.any() and cleaned.nunique() == 1:
        return None
    if kind == "text" and 2 < cleaned.nunique() < _LEVELS:
        most = cleaned.value_counts().max()
        return kind if most >= _rare(len(values)) else None
    if kind == "number" and not missing.any() and len(values) >= _COUNTED:
        steps = np.diff(columns.numbers(values, place))
        if np.array_equal(steps, np.diff(values.index.to_numpy())):
            warn(
                f"column {values.name!r} looks like row numbers: drop it if it says nothing about "
                "a row"
            )
    return kind


def _rare(rows: int) -> int:
    """How many rows a level must have to be kept by itself."""
    return max(1, int(np.ceil(max(_RARE * rows, min(_RARE_ROWS, _RARE_SHARE * rows)))))


def _refuse_gaps(values: pd.Series[Any], missing: NDArray[np.bool_], place: Place) -> None:
    columns.refuse(values, missing, "a value, as nothing may be missing (missing='error')", place)


def _pipeline(frame: pd.DataFrame, texts: Sequence[str]) -> Any:
    """Skrub's vectoriser, always with the same outcome and of bounded width and size."""
    try:
        from skrub import StringEncoder, TableVectorizer
    except ImportError as error:
        raise ImportError(
            "columns of text or dates need skrub, on Python 3.11 or later: "
            'pip install "wassloss[app]"'
        ) from error
    long = [name for name in texts if frame[name].nunique() >= _LEVELS]
    return make_pipeline(
        TableVectorizer(
            cardinality_threshold=_LEVELS,
            low_cardinality=OneHotEncoder(
                handle_unknown="infrequent_if_exist",
                min_frequency=_rare(len(frame)),
                sparse_output=False,
            ),
            high_cardinality=StringEncoder(
                n_components=_WIDTH, vocabulary=_n_grams(frame[long]), random_state=0
            ),
            drop_null_fraction=None,
        ),
        SimpleImputer(strategy="median", add_indicator=True),
    )


def _n_grams(frame: pd.DataFrame) -> list[str] | None:
    """The most frequent n-grams of all texts, so that a vocabulary does not fill the file."""
    from sklearn.feature_extraction.text import CountVectorizer

    if frame.empty:
        return None
    counter = CountVectorizer(analyzer="char_wb", ngram_range=(3, 4), max_features=_PIECES)
    counter.fit(word for name in frame for word in frame[name].dropna().astype("str"))
    found: list[str] = counter.get_feature_names_out().tolist()
    return found
