"""Tables with categories and gaps as features."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wassloss.data import DataWarning, read

pa = pytest.importorskip("pyarrow")

from wassloss.data.raw_table import RawTable  # noqa: E402


def table(**columns: Any) -> Any:
    return pa.table(columns)


def test_numbers_gaps_booleans_and_categories() -> None:
    given = table(
        size=[1.0, None, 3.0, 8.0] * 10,
        sold=[True, False, True, True] * 10,
        cut=["Ideal", None, "Fair", "Ideal"] * 10,
    )
    raw = RawTable.of(given)
    assert raw.feature_names == (
        *("size", "size is missing", "sold"),
        *("cut=Fair", "cut=Ideal", "cut=missing"),
    )
    expected = [[1, 0, 1, 0, 1, 0], [3, 1, 0, 0, 0, 1], [3, 0, 1, 1, 0, 0], [8, 0, 1, 0, 1, 0]]
    np.testing.assert_array_equal(raw.features(given)[:4], expected)


def test_rare_and_unseen_levels_share_a_feature() -> None:
    raw = RawTable.of(table(town=["A"] * 50 + ["B"] * 40 + ["C", "D"]))
    assert raw.feature_names == ("town=A", "town=B", "town=other")
    new = table(town=["A", "C", "Z", None])
    assert raw.features(new).argmax(1).tolist() == [0, 2, 2, 2]


def test_few_rows_have_levels_too() -> None:
    raw = RawTable.of(table(town=["A", "B", "C", "A"]))
    assert raw.feature_names == ("town=A", "town=B", "town=C")


def test_columns_are_found_by_name() -> None:
    given = table(a=[1.0, 2.0, 4.0], b=[0.0, 5.0, 5.0])
    raw = RawTable.of(given)
    shuffled = table(extra=["x"] * 3, b=given["b"], a=given["a"])
    np.testing.assert_array_equal(raw.features(shuffled), raw.features(given))
    with pytest.raises(ValueError, match="it lacks the column 'b'; it has"):
        raw.features(table(a=[1.0]))
    with pytest.warns(DataWarning, match="go by position"):
        found = RawTable.of_numbers(None, 2).features(given)
    np.testing.assert_array_equal(found, raw.features(given))


def test_what_says_nothing_is_left_out() -> None:
    raw = RawTable.of(table(none=[None] * 3, word=["x", "x", "x"], a=[1.5, 2.0, 4.0]))
    assert raw.feature_names == ("a",)
    with pytest.raises(ValueError, match="column that says something"):
        RawTable.of(table(word=["x", "x"]))
    for rows in (30, 300):
        texts = table(text=[f"text {i}" for i in range(rows)], a=np.arange(rows) ** 2.0)
        with pytest.warns(DataWarning, match=f"{rows} different texts and is left out"):
            assert RawTable.of(texts).feature_names == ("a",)


def test_a_word_among_numbers_is_a_mistake() -> None:
    given = table(a=[*map(str, range(20)), "two"])
    with pytest.raises(ValueError, match="row 20, column 'a': expected a number, as in most rows"):
        RawTable.of(given)
    few = RawTable.of(table(doors=["2", "3", "4", "5+"] * 5))
    assert few.feature_names == ("doors=2", "doors=3", "doors=4", "doors=5+")


def test_row_numbers_are_warned_of() -> None:
    with pytest.warns(DataWarning, match=r"column 'id' looks like row numbers: drop it \(--drop"):
        RawTable.of(table(id=list(range(7, 27)), a=[1.0, 3.0] * 10))
    RawTable.of(table(a=[1, 2, 3]))  # so few may count something


def test_dates_and_gaps_can_be_refused() -> None:
    from datetime import date

    with pytest.raises(ValueError, match="column 'day' holds dates or times"):
        RawTable.of(table(day=[date(2020, 1, 1), date(2020, 1, 2)]))
    for gap in (None, float("nan")):
        with pytest.raises(ValueError, match="row 1, column 'a': expected a value, as nothing may"):
            RawTable.of(table(a=[1.0, gap]), missing="error")
    strict = RawTable.of(table(a=[1.0, 2.0], cut=["x", "y"]), missing="error")
    for new in (table(a=[None], cut=["x"]), table(a=[1.0], cut=pa.array([None], pa.string()))):
        with pytest.raises(ValueError, match=r"row 0, column '(a|cut)': expected a (number|value)"):
            strict.features(new)


def test_a_number_that_was_one_in_training() -> None:
    raw = RawTable.of(table(a=[1.0, 2.0, 4.0]))
    assert raw.features(table(a=["03", None])).tolist() == [[3.0], [2.0]]
    with pytest.raises(ValueError, match="row 1, column 'a': expected a number, got 'tall'"):
        raw.features(table(a=["1", "tall"]))
    with pytest.raises(ValueError, match="expected a finite number that fits float32, got inf"):
        raw.features(table(a=[1.0, float("inf")]))


def test_its_state_survives_json() -> None:
    raw = RawTable.of(table(a=[1.0, None, 2.5] * 10, cut=["x", "y", "z"] * 10))
    assert RawTable.from_state(json.loads(json.dumps(raw.state()))) == raw


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "x,cut,ok,code,label\n1,Ideal,true,007,a\nNA,?,false,A1,b\n3,Fair,true,A1,a\n"
    )
    train = read(tmp_path / "a.csv")
    assert train.feature_names == (
        *("x", "x is missing", "cut=Fair", "cut=Ideal", "cut=missing"),
        *("ok", "code=007", "code=A1"),
    )
    assert train.features[:, :2].tolist() == [[1, 0], [2, 1], [3, 0]]
    # A file in which the codes look like numbers, and which has none of the labels but one.
    (tmp_path / "b.csv").write_text("code,label,ok,x,cut\n007,b,false,2,Fair\n")
    test = read(tmp_path / "b.csv", like=train)
    assert test.features.tolist() == [[2, 0, 1, 0, 0, 0, 1, 0]]
    assert (test.label_names, test.target.tolist()) == (("a", "b"), [1])
    typed = {"x": [1, None, 3], "cut": ["Ideal", None, "Fair"], "ok": [True, False, True]}
    own = pa.table({**typed, "code": ["007", "A1", "A1"], "label": ["a", "b", "a"]})
    pa.parquet.write_table(own, tmp_path / "a.parquet")
    assert torch.equal(read(tmp_path / "a.parquet").features, train.features)
    (tmp_path / "c.csv").write_text("code,label,ok,x,cut,city\n007,b,false,2,Fair,Ulm\n")
    with pytest.warns(DataWarning, match="ignoring the column 'city', which the model was not"):
        assert torch.equal(read(tmp_path / "c.csv", like=train).features, test.features)
    (tmp_path / "day.csv").write_text("day,label\n2020-01-02,a\n2020-01-03,b\n")
    with pytest.raises(ValueError, match="column 'day' holds dates or times"):
        read(tmp_path / "day.csv")


def test_columns_that_are_chosen(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,who,z,grade\n1,ann,5,a\n2,bob,6,b\n3,ann,7,a\n")
    path, label = tmp_path / "a.csv", {"label_column": "grade"}
    assert read(path, drop=("who",), **label).feature_names == ("x", "z")
    assert read(path, feature_names=("z",), **label).feature_names == ("z",)
    grouped = read(path, group="who", **label)
    assert grouped.feature_names == ("x", "z")
    assert grouped.groups is not None
    assert grouped.groups.tolist() == [0, 1, 0]
    with pytest.raises(
        ValueError, match=r"it lacks the column 'whom'; it has .* did you mean 'who'"
    ):
        read(path, drop=("whom",), **label)
    with pytest.raises(ValueError, match=r"lacks a column 'label'.*--label-column grade\?"):
        read(path)


def test_levels_never_seen_are_named() -> None:
    raw = RawTable.of(table(town=["A", "B"] * 10))
    with pytest.warns(DataWarning, match="column 'town' holds 'Y', 'Z', which training never saw"):
        assert raw.features(table(town=["Z", "A", "Y"])).tolist() == [[0, 0], [1, 0], [0, 0]]
    with pytest.warns(DataWarning, match="column 'town' holds 'missing'"):
        raw.features(table(town=["A", None]))


@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])
def test_text_is_read_alike_in_every_format(kind: str, tmp_path: Path) -> None:
    """Blanks are trimmed and words for gaps are gaps, in columns of any type."""
    towns, grades = [" A", "B ", "?", "A"] * 10, ["low", " high", "low ", "high"] * 10
    csv, parquet = tmp_path / "x.csv", tmp_path / "x.parquet"
    rows = [f"{town},{grade}" for town, grade in zip(towns, grades, strict=True)]
    csv.write_text("\n".join(["town,label", *rows]))
    words = pa.array(towns)
    words = words.dictionary_encode() if kind == "dictionary" else words.cast(kind)
    import pyarrow.parquet

    pyarrow.parquet.write_table(table(town=words, label=grades), parquet)
    one, other = read(csv), read(parquet)
    assert one.feature_names == other.feature_names == ("town=A", "town=B", "town=missing")
    assert one.label_names == other.label_names == ("high", "low")
    assert torch.equal(one.features, other.features)
    assert torch.equal(one.target, other.target)  # type: ignore[arg-type]
    assert one.raw is not None
    np.testing.assert_array_equal(one.raw.features(table(town=words)), one.features)
