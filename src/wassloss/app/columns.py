"""The kind of a column, and its values as numbers, dates or words.

A text column is numeric if all its words are numbers, and holds dates if all are ISO dates. `GAPS`
are the words for missing values.
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from wassloss.app._messages import warn
from wassloss.app.labels import plain
from wassloss.app.tables import Place

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["number", "date", "text"]
GAPS = ("", "-", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None")
_BOOLEANS = {"true": 1.0, "false": 0.0}
_LARGEST = float(np.finfo(np.float32).max)
_NUMBERS = 10  # with more distinct words, most of them numbers, the others are mistakes
_ISO_DATE, _OTHER_DATE = r"\d{4}-\d\d-\d\d", r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}$"


def refuse(values: pd.Series[Any], bad: NDArray[np.bool_], expected: str, place: Place) -> None:
    """Raise an error about the first bad value, if there is one."""
    if bad.any():
        at = int(np.argmax(bad))
        value = values.iloc[at]
        value = value.item() if isinstance(value, np.generic) else value
        got = "nothing" if _is_gap(value) else reprlib.repr(plain(value))
        raise ValueError(
            f"{place(int(values.index[at]))}, column {values.name!r}: expected {expected}, "
            f"got {got}"
        )


def without_gaps(values: pd.Series[Any], gaps: tuple[str, ...] = GAPS) -> pd.Series[Any]:
    """The values with plain dtypes, text stripped, and gaps marked as missing."""
    import pandas as pd

    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    if isinstance(values.dtype, pd.ArrowDtype):
        values = values.astype(object).where(values.notna(), None)
    if values.dtype == object:
        values = values.infer_objects()
    if values.dtype == object:
        kind = pd.api.types.infer_dtype(values, skipna=True)
        plain_type = {"decimal": "float64", "integer": "float64", "boolean": "boolean"}.get(kind)
        values = values if plain_type is None else values.astype(plain_type)
    if is_text(values):
        values = values.astype("string").str.strip()
        return values.mask(values.isin(gaps).to_numpy())
    return values


def is_text(values: pd.Series[Any]) -> bool:
    """Whether these are words, possibly mixed with other scalars."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(values, skipna=True) if values.dtype == object else ""
    return kind in ("string", "mixed-integer") or (
        values.dtype != object and pd.api.types.is_string_dtype(values.dtype)
    )


def is_list(values: pd.Series[Any]) -> bool:
    """Whether these are lists."""
    if values.dtype != object:
        return False
    there = values.dropna()
    return len(there) > 0 and isinstance(there.iloc[0], list | tuple | np.ndarray)


def kind_of(values: pd.Series[Any], place: Place) -> Kind:
    """The kind of a column that has at least one value."""
    import pandas as pd

    if isinstance(values.dtype, pd.CategoricalDtype):
        return "text"
    values = without_gaps(values)
    types = pd.api.types
    if types.is_datetime64_any_dtype(values.dtype):
        return "date"
    if types.is_numeric_dtype(values.dtype) and not types.is_complex_dtype(values.dtype):
        return "number"
    if types.is_timedelta64_dtype(values.dtype):
        return "number"
    if values.dtype == object and types.infer_dtype(values, skipna=True) in ("date", "datetime"):
        return "date"
    if not is_text(values):
        raise ValueError(
            f"column {values.name!r} must hold numbers, words or dates, got {_described(values)}: "
            "put each number into a column of its own"
        )
    words = values.dropna()
    if len(words) == 0:
        return "text"
    odd = np.isnan(_spelled(words)) & ~words.str.lower().isin(_BOOLEANS).to_numpy()
    if not odd.any():
        return "number"
    if words.str.match(_ISO_DATE).all() and not _dates(words).isna().any():
        return "date"
    if words.str.match(_OTHER_DATE).all():
        warn(
            f"column {values.name!r} is read as text: to have its dates read as dates, write them "
            "as 2024-12-31"
        )
    different = words.nunique()
    if different > _NUMBERS and words[odd].nunique() < different / 2:
        refuse(words, odd, "a number, as in most rows", place)
    return "text"


def numbers(values: pd.Series[Any], place: Place) -> NDArray[np.float64]:
    """Numbers, booleans, durations in seconds, or numbers written as words; NaN for gaps."""
    import pandas as pd

    cleaned = without_gaps(values)
    if pd.api.types.is_timedelta64_dtype(cleaned.dtype):
        cleaned = cleaned.dt.total_seconds()
    if is_text(cleaned):
        found = _spelled(cleaned)
        boolean = cleaned.str.lower().map(_BOOLEANS).to_numpy(dtype=np.float64, na_value=np.nan)
        found = np.where(np.isnan(found), boolean, found)
        refuse(values, np.isnan(found) & cleaned.notna().to_numpy(), "a number", place)
    elif pd.api.types.is_numeric_dtype(cleaned.dtype) or not cleaned.notna().any():
        found = cleaned.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        raise ValueError(f"column {values.name!r} must hold numbers, got {_described(cleaned)}")
    refuse(values, np.abs(found) > _LARGEST, "a finite number that fits float32", place)
    return found


def dates(values: pd.Series[Any], place: Place) -> pd.Series[Any]:
    """Times without a zone, converted to UTC if they had one; gaps are missing."""
    cleaned = without_gaps(values)
    found = _dates(cleaned)
    refuse(values, (found.isna() & cleaned.notna()).to_numpy(), "a date such as 2024-12-31", place)
    return found


def words(values: pd.Series[Any]) -> pd.Series[Any]:
    """Values of any simple kind as text, with 2 for 2.0; gaps are missing."""
    cleaned = without_gaps(values)
    if is_text(cleaned):
        return cleaned.astype("string")
    found = cleaned.astype(object).map(lambda value: str(plain(value)), na_action="ignore")
    return found.astype("string")


def _spelled(words: pd.Series[Any]) -> NDArray[np.float64]:
    """Words parsed as numbers; NaN for other words."""
    import pandas as pd

    found: NDArray[np.float64] = pd.to_numeric(words.astype(object), errors="coerce").to_numpy(
        dtype=np.float64, na_value=np.nan
    )
    return found


def _dates(values: pd.Series[Any]) -> pd.Series[Any]:
    import pandas as pd

    how = {"format": "ISO8601"} if is_text(values) else {}
    try:
        found = pd.to_datetime(values, errors="coerce", utc=True, **how)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"column {values.name!r} must hold dates: {error}") from error
    return found.dt.tz_localize(None)


def _described(values: pd.Series[Any]) -> str:
    import pandas as pd

    if values.dtype != object:
        return str(values.dtype)
    return "lists" if is_list(values) else pd.api.types.infer_dtype(values, skipna=True)


def _is_gap(value: Any) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_scalar(value) and pd.isna(value)) or (
        isinstance(value, str) and value.strip() in GAPS
    )
