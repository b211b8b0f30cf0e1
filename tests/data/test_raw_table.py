"""Tables with categories and gaps as features."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wassloss.data import DataWarning

pa = pytest.importorskip("pyarrow")

from wassloss.data.raw_table import RawTable, read_raw_table  # noqa: E402


def table(**columns: Any) -> Any:
    return pa.table(columns)


def test_numbers_gaps_booleans_and_categories() -> None:
    given = table(
        size=[1.0, None, 3.0, 8.0] * 10,
        sold=[True, False, True, True] * 10,
        cut=["Ideal", None, "Fair", "Ideal"] * 10,
    )
    raw = RawTable.of(given)
    assert raw.feature_names == [
        *("size", "size is missing", "sold", "cut=Fair", "cut=Ideal", "cut=missing")
    ]
    expected = [[1, 0, 1, 0, 1, 0], [3, 1, 0, 0, 0, 1], [3, 0, 1, 1, 0, 0], [8, 0, 1, 0, 1, 0]]
    np.testing.assert_array_equal(raw.features(given)[:4], expected)


def test_rare_and_unseen_levels_share_a_feature() -> None:
    raw = RawTable.of(table(town=["A"] * 50 + ["B"] * 40 + ["C", "D"]))
    assert raw.feature_names == ["town=A", "town=B", "town=other"]
    new = table(town=["A", "C", "Z", None])
    assert raw.features(new).argmax(1).tolist() == [0, 2, 2, 2]


def test_columns_are_found_by_name() -> None:
    given = table(a=[1.0, 2.0, 4.0], b=[0.0, 5.0, 5.0])
    raw = RawTable.of(given)
    shuffled = table(extra=["x"] * 3, b=given["b"], a=given["a"])
    np.testing.assert_array_equal(raw.features(shuffled), raw.features(given))
    with pytest.raises(ValueError, match="got none named 'b'"):
        raw.features(table(a=[1.0]))


def test_what_says_nothing_is_left_out() -> None:
    raw = RawTable.of(table(same=[1, 1, 1], word=["x", "x", "x"], a=[1.5, 2.0, 4.0]))
    assert raw.feature_names == ["a"]
    with pytest.raises(ValueError, match="column that varies"):
        RawTable.of(table(same=[1, 1, 1]))
    texts = table(text=[f"text {i}" for i in range(300)], a=np.arange(300) ** 2.0)
    with pytest.warns(DataWarning, match="300 different texts and is left out"):
        assert RawTable.of(texts).feature_names == ["a"]


def test_row_numbers_are_warned_of() -> None:
    with pytest.warns(DataWarning, match=r"column 'id' looks like row numbers: drop it \(--drop"):
        RawTable.of(table(id=[7, 8, 9, 10], a=[1.0, 3.0, 2.0, 2.0]))


def test_dates_and_gaps_can_be_refused() -> None:
    from datetime import date

    with pytest.raises(ValueError, match="column 'day' holds dates or times"):
        RawTable.of(table(day=[date(2020, 1, 1), date(2020, 1, 2)]))
    with pytest.raises(ValueError, match="column 'a' must have no gaps"):
        RawTable.of(table(a=[1.0, None]), missing="error")


def test_a_number_that_was_one_in_training() -> None:
    raw = RawTable.of(table(a=[1.0, 2.0, 4.0]))
    with pytest.raises(ValueError, match="column 'a' must hold numbers, as it did in training"):
        raw.features(table(a=["tall"]))


def test_its_state_survives_json() -> None:
    raw = RawTable.of(table(a=[1.0, None, 2.5] * 10, cut=["x", "y", "z"] * 10))
    assert RawTable.from_state(json.loads(json.dumps(raw.state()))) == raw


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,cut,ok\n1,Ideal,true\nNA,?,false\n3,Fair,true\n")
    read = read_raw_table(tmp_path / "a.csv")
    assert read["x"].to_pylist() == [1, None, 3]
    assert read["cut"].to_pylist() == ["Ideal", None, "Fair"]
    assert read["ok"].to_pylist() == [True, False, True]
    pa.parquet.write_table(read, tmp_path / "a.parquet")
    assert read_raw_table(tmp_path / "a.parquet").equals(read)
    (tmp_path / "bad.csv").write_text("x,y\n1,2\n3\n")
    with pytest.raises(ValueError, match="must be a CSV file with a header"):
        read_raw_table(tmp_path / "bad.csv")
