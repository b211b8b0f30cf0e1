"""A label that is missing is not a class: its row is left out, and a warning counts them."""

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import wassloss as wl
from wassloss.data._arrow import GAPS

WORDS = ["", "  ", *GAPS[1:]]


def table(path: Path, labels: list[str]) -> Path:
    rows = [f"{i}.5,{i % 2},{label}" for i, label in enumerate(labels)]
    path.write_text("\n".join(["x,y,label", *rows]))
    return path


@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_says_there_is_none(word: str, tmp_path: Path) -> None:
    path = table(tmp_path / "data.csv", ["good", word, "bad", word, "good"])
    with pytest.warns(wl.data.DataWarning, match="2 of 5 rows have no label") as caught:
        data = wl.data.read(path)
    assert data.label_names == ("bad", "good")
    assert data.y.tolist() == ["good", "bad", "good"]
    assert data.features[:, 0].tolist() == [0.5, 2.5, 4.5]
    said = str(caught[0].message)
    assert (repr(word) in said) == bool(word.strip())
    assert "they are left out, and the others are numbered without them" in said
    with pytest.raises(ValueError, match="line 3, column 'label': expected a label, as nothing"):
        wl.data.read(path, missing="error")


@pytest.mark.parametrize("word", ["NA", "None", "-"])
def test_a_word_that_is_listed_is_a_label(word: str, tmp_path: Path) -> None:
    path = table(tmp_path / "data.csv", ["good", word, "good"])
    data = wl.data.read(path, label_names=[word, "good"])
    assert data.y.tolist() == ["good", word, "good"]
    assert wl.data.read(path, like=data).y.tolist() == ["good", word, "good"]


@pytest.mark.parametrize("values", [[1.0, None, 2.0], [1.0, float("nan"), 2.0], ["a", None, "b"]])
def test_gaps_in_parquet(values: list[object], tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    made = pyarrow.table({"x": [0.5, 1.5, 2.5], "label": pyarrow.array(values, from_pandas=False)})
    pyarrow.parquet.write_table(made, path)
    with pytest.warns(wl.data.DataWarning, match="1 of 3 rows have no label: they"):
        data = wl.data.read(path)
    assert data.features[:, 0].tolist() == [0.5, 2.5]
    assert len(np.unique(data.y)) == 2


def test_errors_say_the_line_in_the_file(tmp_path: Path) -> None:
    path = table(tmp_path / "data.csv", ["good", "NA", "bad", "god"])
    with (
        pytest.warns(wl.data.DataWarning, match="1 of 4 rows"),
        pytest.raises(ValueError, match="line 5: 'god' is none of the 2 labels"),
    ):
        wl.data.read(path, label_names=["bad", "good"])


def test_no_label_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="column 'label' must hold labels, got none"):
        wl.data.read(table(tmp_path / "data.csv", ["NA", "", "-"]))


def test_gaps_of_features(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x,label\n1,a\nn/a,b\n-,a\n#N/A,b\n3,a\n")
    assert wl.data.read(path).features.tolist() == [[1, 0], [2, 1], [2, 1], [2, 1], [3, 0]]
