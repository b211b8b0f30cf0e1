"""Columns of tables as features: what becomes of them is decided on the rows to train on."""

from __future__ import annotations

import subprocess
import sys
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from wassloss.app import encoding_file
from wassloss.app._messages import DataWarning
from wassloss.app.encoding import Encoder
from wassloss.app.tables import Table, read_table

pytest.importorskip("skrub")


def table(**columns: Any) -> Table:
    return Table.of(pd.DataFrame(columns))


def encoded(encoder: Encoder, **columns: Any) -> list[list[float]]:
    return encoder.transform(table(**columns)).to_numpy().tolist()


def reloaded(encoder: Encoder) -> Encoder:
    """What a file of the encoder holds."""
    others = None if encoder.others is None else encoding_file.pack(encoder.others)
    return encoding_file.unpack(encoding_file.to_json(encoder), others)


def words(rows: int) -> list[str]:
    rng = np.random.default_rng(0)
    names = ["red", "dry", "sweet", "old", "oak", "plum", "cheap", "good", "flat", "long"]
    return [" ".join(rng.choice(names, 4)) + f" {i % 60}" for i in range(rows)]


MESSY = {
    "size": [1.0, None, 3.0, 8.0] * 30,
    "sold": [True, False, True, True] * 30,
    "cut": ["Ideal", None, "Fair", "Ideal"] * 30,
    "day": pd.date_range("2020-01-01", periods=120),
    "note": words(120),
}


def test_numbers_gaps_booleans_and_categories() -> None:
    given = {name: MESSY[name] for name in ("size", "sold", "cut")}
    encoder = Encoder.fit(table(**given))
    assert encoder.feature_names == [
        *("size", "sold", "size is missing"),
        *("cut_Fair", "cut_Ideal", "cut_nan"),
    ]
    expected = [[1, 1, 0, 0, 1, 0], [3, 0, 1, 0, 0, 1], [3, 1, 0, 1, 0, 0], [8, 1, 0, 0, 1, 0]]
    assert encoded(encoder, **given)[:4] == expected


def test_rows_held_out_decide_nothing() -> None:
    train = np.flatnonzero(np.arange(120) % 3)
    first = Encoder.fit(table(**MESSY), train)
    changed = table(**MESSY).frame
    changed.loc[::3, "size"] = 1e6
    changed.loc[::3, "cut"] = "Poor"
    changed.loc[::3, "day"] = pd.NaT
    changed.loc[::3, "note"] = "quite another text"
    again = Encoder.fit(Table.of(changed), train)
    own = Table.of(table(**MESSY).frame.iloc[train])
    pd.testing.assert_frame_equal(again.transform(own), first.transform(own))


def test_the_same_rows_give_the_same_features_and_the_width_is_bounded() -> None:
    first, again = Encoder.fit(table(**MESSY)), Encoder.fit(table(**MESSY))
    whole = first.transform(table(**MESSY))
    pd.testing.assert_frame_equal(again.transform(table(**MESSY)), whole)
    texts = {"note": [f"text {i} of {i * i} words" for i in range(500)]}
    assert len(Encoder.fit(table(**texts)).feature_names) <= 30
    levels = {"level": [f"{i % 39} l" for i in range(400)]}
    assert len(Encoder.fit(table(**levels)).feature_names) <= 40
    some = Table.of(table(**MESSY).frame.iloc[7:8])
    np.testing.assert_allclose(first.transform(some), whole.iloc[7:8], atol=1e-5)


def test_similar_texts_have_similar_features() -> None:
    encoder = Encoder.fit(table(note=words(200)))
    one, near, far = encoder.transform(
        table(note=["red dry sweet old 3", "red dry sweet oak 3", "good flat long plum 8"])
    ).to_numpy()
    assert np.linalg.norm(one - near) < 0.7 * np.linalg.norm(one - far)


def test_rare_and_unseen_levels_share_a_feature() -> None:
    encoder = Encoder.fit(table(town=["A"] * 50 + ["B"] * 40 + ["C", "D"]))
    assert encoder.feature_names == ["town_A", "town_B", "town_infrequent_sklearn"]
    found = np.argmax(encoded(encoder, town=["A", "C", "Z", None]), axis=1)
    assert found.tolist() == [0, 2, 2, 2]


def test_few_rows_have_levels_too() -> None:
    encoder = Encoder.fit(table(town=["A", "B", "C", "A"]))
    assert encoder.feature_names == ["town_A", "town_B", "town_C"]


def test_levels_never_seen_are_named() -> None:
    encoder = Encoder.fit(table(town=["A", "B"] * 10))
    with pytest.warns(DataWarning, match="column 'town' holds 'Y', 'Z', unlike the training rows"):
        assert encoded(encoder, town=["Z", "A", "Y"]) == [[0, 0], [1, 0], [0, 0]]
    with pytest.warns(DataWarning, match="column 'town' has gaps, unlike the training rows"):
        encoded(encoder, town=["A", None])


def test_dates() -> None:
    days = [date(2020, 1, 1), date(2021, 6, 2)] * 10
    encoder = Encoder.fit(table(day=days))
    assert encoder.dates == ("day",)
    assert encoder.feature_names[:3] == ["day_year", "day_month", "day_day"]
    assert encoded(encoder, day=days)[1][:3] == [2021, 6, 2]
    spelled = [f"{day} " for day in days]
    assert encoded(encoder, day=spelled) == encoded(encoder, day=days)
    assert Encoder.fit(table(day=spelled)).dates == ("day",)
    zone = pd.to_datetime(["2020-01-01T02:00+02:00", "2021-06-02T00:00+00:00"] * 10, utc=True)
    assert encoded(encoder, day=zone) == encoded(encoder, day=days)
    gaps = Encoder.fit(table(day=[*spelled, "-"]))
    assert "missingindicator_day_year" in gaps.feature_names
    with pytest.raises(ValueError, match="row 1, column 'day': expected a date such as 2024-12-31"):
        encoded(encoder, day=["2020-02-03", "soon"])
    with pytest.warns(DataWarning, match="column 'day' is read as text: .* as 2024"):
        assert Encoder.fit(table(day=["31.12.2020", "1.2.2021"] * 9)).texts == ("day",)


def test_columns_are_found_by_name() -> None:
    encoder = Encoder.fit(table(a=[1.0, 2.0, 4.0], b=[0.0, 5.0, 5.0]))
    expected = encoded(encoder, a=[1, 2], b=[5, 6])
    assert encoded(encoder, b=[5, 6], a=[1, 2]) == expected
    with pytest.warns(DataWarning, match="ignoring the column 'extra', which the model was not"):
        assert encoded(encoder, extra=["x"] * 2, b=[5, 6], a=[1, 2]) == expected
    with pytest.raises(ValueError, match="it lacks the column 'b'; it has 'a', 'bb'; did you mean"):
        encoded(encoder, a=[1.0], bb=[2.0])


def test_what_says_nothing_is_left_out_and_not_missed() -> None:
    given = {"none": [None] * 3, "word": ["x"] * 3, "one": [1, 1, 1], "a": [1.5, 2.0, 4.0]}
    with pytest.warns(DataWarning, match="out the columns 'none', 'word', 'one': one value in"):
        encoder = Encoder.fit(table(**given), ignored=["label"])
    assert encoder.feature_names == ["a"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert encoded(encoder, **given, label=[1, 2, 3]) == [[1.5], [2.0], [4.0]]
        assert encoded(encoder, a=[1.0]) == [[1.0]]
    with (
        pytest.raises(ValueError, match="a feature column with different values, got none"),
        pytest.warns(DataWarning, match="one value"),
    ):
        Encoder.fit(table(word=["x", "x"]))


def test_texts_that_hardly_repeat_are_left_out_of_few_rows() -> None:
    names = [f"name {i}" for i in range(30)]
    with pytest.warns(DataWarning, match="leaving out the column 'name': .*texts of very few rows"):
        encoder = Encoder.fit(table(name=names, a=np.arange(30) ** 2))
    assert encoder.feature_names == ["a"]


@pytest.mark.parametrize("kind", ["bool", "dictionary", "timestamp", "decimal", "double", "date"])
def test_columns_of_arrow(kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    import datetime
    from decimal import Decimal

    values: dict[str, tuple[Any, list[Any]]] = {
        "bool": (pa.bool_(), [True, False]),
        "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["a", "b"]),
        "timestamp": (pa.timestamp("ns"), [datetime.datetime(2020, 1, 1), None]),
        "decimal": (pa.decimal128(5, 2), [Decimal("1.5"), None]),
        "double": (pa.float64(), [1.5, None]),
        "date": (pa.date32(), [datetime.date(2020, 1, 1), datetime.date(2020, 1, 5)]),
    }
    dtype, each = values[kind]
    arrow = pd.Series(pd.array(each * 10, dtype=pd.ArrowDtype(dtype)))
    encoder = Encoder.fit(table(c=arrow))
    expected = Encoder.fit(table(c=each * 10)).transform(table(c=each * 10))
    pd.testing.assert_frame_equal(encoder.transform(table(c=arrow)), expected)
    pd.testing.assert_frame_equal(reloaded(encoder).transform(table(c=arrow)), expected)


def test_a_word_among_numbers_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="row 20, column 'a': expected a number, as in most rows"):
        Encoder.fit(table(a=[*map(str, range(20)), "two"]))
    few = Encoder.fit(table(doors=["2", "3", "4", "5+"] * 5))
    assert few.feature_names == ["doors_2", "doors_3", "doors_4", "doors_5+"]


def test_row_numbers_are_warned_of() -> None:
    with pytest.warns(DataWarning, match="column 'id' looks like row numbers: drop it"):
        Encoder.fit(table(id=list(range(7, 27)), a=[1.0, 3.0] * 10))
    Encoder.fit(table(a=[1, 2, 3]))  # so few may count something


def test_gaps_can_be_refused() -> None:
    for gap in (None, float("nan")):
        with pytest.raises(ValueError, match=r"row 1, column 'a': expected a value \(missing"):
            Encoder.fit(table(a=[1.0, gap, 2.0]), strict=True)
    strict = Encoder.fit(table(a=[1.0, 2.0], cut=["x", "y"]), strict=True)
    for new in ({"a": [None], "cut": ["x"]}, {"a": [1.0], "cut": ["-"]}):
        with pytest.raises(ValueError, match=r"row 0, column '(a|cut)': expected a value"):
            encoded(strict, **new)


def test_a_number_that_was_one_in_training() -> None:
    encoder = Encoder.fit(table(a=[1.0, 2.0, 4.0]))
    assert encoded(encoder, a=["03", None]) == [[3.0], [2.0]]
    with pytest.raises(ValueError, match="row 1, column 'a': expected a number, got 'tall'"):
        encoded(encoder, a=["1", "tall"])
    with pytest.raises(ValueError, match="expected a finite number that fits float32, got inf"):
        encoded(encoder, a=[1.0, float("inf")])


def test_a_text_that_looks_like_numbers_later(tmp_path: Path) -> None:
    codes = Encoder.fit(table(code=["007", "A1", "7"] * 5))
    assert codes.feature_names == ["code_007", "code_7", "code_A1"]
    assert encoded(codes, code=["007", "7"]) == [[1, 0, 0], [0, 1, 0]]
    assert encoded(codes, code=[7.0, 7]) == [[0, 1, 0], [0, 1, 0]]


@pytest.mark.parametrize("kind", ["str", "object", "category", "string[python]"])
def test_text_is_the_same_in_every_type(kind: str, tmp_path: Path) -> None:
    """Blanks are trimmed and words for gaps are gaps, in columns of any type."""
    towns = [" A", "B ", "?", "A"] * 10
    (tmp_path / "x.csv").write_text("\n".join(["town,a", *(f"{town},1" for town in towns)]))
    csv = Table.of(read_table(tmp_path / "x.csv").frame[["town"]])
    typed = Table.of(pd.DataFrame({"town": pd.Series(towns, dtype=kind)}))
    one, other = Encoder.fit(csv), Encoder.fit(typed)
    assert one.feature_names == other.feature_names == ["town_A", "town_B", "town_nan"]
    pd.testing.assert_frame_equal(one.transform(typed), other.transform(csv))


def test_numbers_of_every_type() -> None:
    from decimal import Decimal

    columns = {
        "decimal": [Decimal("1.5"), None, Decimal(4)],
        "nullable": pd.array([1, None, 3], "Int64"),
        "flag": pd.array([True, None, False], "boolean"),
        "words": ["1.5", "n/a", "1e3"],
        "truth": ["true", "-", "False"],
        "time": pd.to_timedelta([1, None, 3], "s"),
        "small": np.array([1, 2, 3], np.int8),
    }
    encoder = Encoder.fit(table(**columns))
    assert len(encoder.numbers) == 7
    first = encoder.transform(table(**columns)).iloc[0]
    assert first[list(columns)].tolist() == [1.5, 1, 1, 1.5, 1, 1, 1]


@pytest.mark.parametrize("columns", [MESSY, {"size": MESSY["size"]}, {"note": MESSY["note"]}])
def test_it_survives_its_file(columns: dict[str, Any]) -> None:
    encoder = Encoder.fit(table(**columns))
    again = reloaded(encoder)
    assert again.feature_names == encoder.feature_names
    pd.testing.assert_frame_equal(
        again.transform(table(**columns)), encoder.transform(table(**columns))
    )


def test_numbers_alone_need_no_skrub() -> None:
    code = """
import sys, pandas, wassloss as wl
from wassloss.app.encoding import Encoder
from wassloss.app import encoding_file
from wassloss.app.tables import Table
table = Table.of(pandas.DataFrame({"a": [1.0, None, 3.0], "b": [True, False, True]}))
encoder = Encoder.fit(table)
encoding_file.unpack(encoding_file.to_json(encoder), None).transform(table)
print([name for name in ("skrub", "skops", "pyarrow.parquet") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
