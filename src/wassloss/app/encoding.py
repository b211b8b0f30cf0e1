"""Encode the columns of a data frame as features, with skrub and scikit-learn.

The encoder is fitted to the training rows and saved with the model. Numbers stay as they are; a
missing one becomes the median, with a missing-value indicator. Dates, categories and free text go
through skrub's ``TableVectorizer``, which is imported only for them.
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

_RARE = 0.01  # levels are merged if they have less than this share of the rows …
_RARE_ROWS, _RARE_SHARE = 10, 0.05  # … or fewer rows than this, or than this share of a small table
_LEVELS = 40  # levels from which a category becomes free text
_PIECES, _WIDTH = 1024, 30  # n-grams in the vocabulary, features of a text column
_COUNTED = 10  # rows from which consecutive numbers look like row numbers


@dataclass(frozen=True, eq=False)
class Encoder:
    """Encoder of a table's columns as features.

    Attributes:
        numbers, dates, texts: the columns of each kind.
        ignored: known columns that are not features.
        strict: whether missing values are refused.
        medians: the medians of the numeric columns.
        gaps: which numeric columns may be missing, and have a missing-value indicator.
        others: skrub's pipeline for dates and texts, or None if there are none.

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
        """Fit an encoder to some rows of a table, by default to all.

        Args:
            table: a table whose columns are all features.
            rows: the training rows.
            strict: whether to refuse missing values.
            ignored: columns to ignore in other tables without a warning.
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
            why = "one value in all training rows, or only texts of very few rows"
            warn(f"leaving out {listed(useless)}: {why}")
        if not any(found.values()):
            raise ValueError("it must have a feature column with different values, got none")
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
        """An encoder that passes numbers through: columns by name, or by position without names."""
        if names is None:
            others = ("label", "labels", "weights", "part")
            names = [name for name in table.frame.columns if name not in others]
            if len(names) != count:
                raise ValueError(f"{table.source} must have {count} columns, got {len(names)}")
            warn("columns are matched by position, because the model has no column names")
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
        """Features `(rows, features)`; columns are matched by name, in any order.

        Raises:
            ValueError: a column is missing, or holds a value of another kind.
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
        """Fill gaps with the medians, and append the missing-value indicators."""
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
        """Dates, and texts as categories, so that skrub does not parse their words."""
        import pandas as pd

        made = {name: columns.dates(frame[name], place) for name in self.dates}
        made |= {name: columns.words(frame[name]).astype("category") for name in self.texts}
        if self.strict:
            for name, values in made.items():
                _refuse_gaps(frame[name], values.isna().to_numpy(), place)
        return pd.DataFrame(made)

    def _warn_of_unseen(self, frame: pd.DataFrame) -> None:
        """Warn about unseen levels, in columns that have no merged rare level to stand for them."""
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
                        f"column {name!r} {what}, unlike the training rows: its features are all 0 "
                        "there"
                    )


def _decided(values: pd.Series[Any], place: Place, strict: bool) -> columns.Kind | None:
    """The kind of a column, or None if it carries no information."""
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
            warn(f"column {values.name!r} looks like row numbers: drop it if it is not a feature")
    return kind


def _rare(rows: int) -> int:
    """The number of rows below which a level is rare."""
    return max(1, int(np.ceil(max(_RARE * rows, min(_RARE_ROWS, _RARE_SHARE * rows)))))


def _refuse_gaps(values: pd.Series[Any], missing: NDArray[np.bool_], place: Place) -> None:
    columns.refuse(values, missing, "a value (missing='error')", place)


def _pipeline(frame: pd.DataFrame, texts: Sequence[str]) -> Any:
    """Skrub's vectoriser, made deterministic and bounded in width and file size."""
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
    """The most frequent n-grams of all texts, which bound the vocabulary in the file."""
    from sklearn.feature_extraction.text import CountVectorizer

    if frame.empty:
        return None
    counter = CountVectorizer(analyzer="char_wb", ngram_range=(3, 4), max_features=_PIECES)
    counter.fit(word for name in frame for word in frame[name].dropna().astype("str"))
    found: list[str] = counter.get_feature_names_out().tolist()
    return found
