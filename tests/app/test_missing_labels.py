"""A missing label is not a class: its row is dropped, and a warning has the number of rows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wassloss.app._messages import DataWarning
from wassloss.app.columns import GAPS
from wassloss.app.examples import Examples, ReadOptions, read_examples
from wassloss.app.tables import read_table

WORDS = ["", "  ", *GAPS[1:]]


def table(path: Path, labels: list[str]) -> Path:
    rows = [f"{i}.5,{i % 2},{label}" for i, label in enumerate(labels)]
    path.write_text("\n".join(["x,y,label", *rows]))
    return path


def read(path: Path, **options: object) -> Examples:
    return read_examples(read_table(path), ReadOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_says_there_is_none(word: str, tmp_path: Path) -> None:
    path = table(tmp_path / "data.csv", ["good", word, "bad", word, "good"])
    with pytest.warns(DataWarning, match="2 of 5 rows have no label") as caught:
        data = read(path)
    assert data.labels == ("bad", "good")
    assert data.y.tolist() == ["good", "bad", "good"]
    assert data.X["x"].tolist() == ["0.5", "2.5", "4.5"]
    assert data.rows.tolist() == [0, 2, 4]
    said = str(caught[0].message)
    assert (repr(word) in said) == bool(word.strip())
    assert "they are left out, and the others keep their row numbers" in said
    with pytest.raises(ValueError, match=r"line 3, column 'label': expected a label \(missing"):
        read(path, missing="error")


@pytest.mark.parametrize("word", ["NA", "None", "-"])
def test_a_word_that_is_listed_is_a_label(word: str, tmp_path: Path) -> None:
    path = table(tmp_path / "data.csv", ["good", word, "good"])
    assert read(path, order=(word, "good")).y.tolist() == ["good", word, "good"]


@pytest.mark.parametrize("values", [[1.0, None, 2.0], [1.0, float("nan"), 2.0], ["a", None, "b"]])
def test_gaps_in_parquet(values: list[object], tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "data.parquet"
    pd.DataFrame({"x": [0.5, 1.5, 2.5], "label": values}).to_parquet(path)
    with pytest.warns(DataWarning, match="1 of 3 rows have no label: they"):
        data = read(path)
    assert data.X["x"].tolist() == [0.5, 2.5]
    assert len(np.unique(data.y)) == 2


def test_errors_say_the_line_in_the_file(tmp_path: Path) -> None:
    path = table(tmp_path / "data.csv", ["good", "NA", "bad", "god"])
    with (
        pytest.warns(DataWarning, match="1 of 4 rows"),
        pytest.raises(ValueError, match="line 5: 'god' is not one of the 2 labels"),
    ):
        read(path, order=("bad", "good"))


def test_no_label_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="column 'label' must hold labels, got none"):
        read(table(tmp_path / "data.csv", ["NA", "", "-"]))
