"""CSV and Parquet files as tables, and files that are not what they should be."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from wassloss.app.encoding import Encoder
from wassloss.app.examples import Examples, ReadOptions, read_examples
from wassloss.app.tables import Table, read_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

LABELLED = {
    "label": ["b", "a", "c", "a"],
    "labels": [["b", "a"], ["c"], ["a"], ["c", "a"]],
}


def read(path: Path | str, **options: Any) -> Examples:
    return read_examples(read_table(path), ReadOptions(**options))


def numbers(examples: Examples) -> list[list[float]]:
    """Features as they are predicted from: what is wrong with a value is an error."""
    table = examples.table
    names = [str(name) for name in table.frame.columns]
    return Encoder.of_numbers(table, names, len(names)).transform(table).to_numpy().tolist()


def csv_of(tmp_path: Path, text: str, **options: Any) -> Examples:
    path = tmp_path / "table.csv"
    path.write_text(text)
    return read(path, **options)


def parquet_of(tmp_path: Path, columns: dict[str, Any], **options: Any) -> Examples:
    pq.write_table(pa.table(columns), tmp_path / "table.parquet")
    return read(tmp_path / "table.parquet", **options)


@pytest.mark.parametrize("kind", ["label", "labels", "weights"])
def test_every_format_holds_the_same(kind: str, tmp_path: Path) -> None:
    columns: dict[str, Any] = {"x": [1.0, 2.5, 4.0, -3.0], "part": ["train", "", "test", "train"]}
    name = "label" if kind == "label" else "labels"
    columns[name] = LABELLED[name]
    if kind == "weights":
        columns["weights"] = [[0.25, 0.75], [1.0], [2.0], [0.5, 0.0]]
    frame = pd.DataFrame(columns)
    words = {
        n: [";".join(map(str, c)) if isinstance(c, list) else c for c in v]
        for n, v in columns.items()
    }
    found = [
        csv_of(tmp_path, pd.DataFrame(words).to_csv(index=False)),
        parquet_of(tmp_path, columns),
        read_examples(Table.of(frame)),
    ]
    for each in found:
        assert numbers(each) == [[1.0], [2.5], [4.0], [-3.0]]
        assert each.labels == ("a", "b", "c")
        assert {n: rows.tolist() for n, rows in each.parts.items()} == {
            "train": [0, 3],
            "test": [2],
        }
    dense = [each.y if kind == "label" else each.y.toarray() for each in found]
    np.testing.assert_array_equal(dense[0], dense[1])
    np.testing.assert_array_equal(dense[0], dense[2])
    expected = {"label": None, "labels": [0.5, 0.5, 0], "weights": [0.75, 0.25, 0]}[kind]
    if expected:
        assert dense[0][0].tolist() == expected


def test_csv_as_people_write_it(tmp_path: Path) -> None:
    data = csv_of(tmp_path, "\ufeffage, label ,height\n3,dog,1e2\n\n4,cat,50\n")
    assert numbers(data) == [[3, 100], [4, 50]]
    assert data.labels == ("cat", "dog")
    assert data.y.tolist() == ["dog", "cat"]
    # A test file lacks a label, and its names are the train file's.
    data = csv_of(tmp_path, "x,label\n1,cat\n2,dog\n", order=("ant", "cat", "dog"))
    assert data.target.tolist() == [1, 2]
    data = csv_of(tmp_path, "x,grade\n1,4\n2,0\n", label_column="grade")
    assert data.labels == ("0", "4")
    data = csv_of(tmp_path, 'x,label\n1,a;\n2,"b, ""c"""\n')  # one label each
    assert data.labels == ("a;", 'b, "c"')
    data = csv_of(tmp_path, "x,labels\n1,sea; sky\n2,sky\n")
    assert data.labels == ("sea", "sky")
    assert data.y.toarray().tolist() == [[0.5, 0.5], [0, 1]]


def in_format(suffix: str, values: list[Any], folder: Path, **options: Any) -> Examples:
    """Three rows of one feature with these labels, as someone else would write them."""
    path = folder / f"data{suffix}"
    if suffix == ".csv":
        path.write_text("x,label\n" + "".join(f"{i},{value}\n" for i, value in enumerate(values)))
    else:
        pq.write_table(pa.table({"x0": np.arange(3.0), "label": values}), path)
    return read(path, **options)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("values", "names", "ids"),
    [
        ([10, 9, 10], ("9", "10"), [1, 0, 1]),  # as numbers: 10 after 9
        ([10.0, 9.0, 9.5], ("9", "9.5", "10"), [2, 0, 1]),  # 10.0 is 10
        ([-1, 1, -1], ("-1", "1"), [0, 1, 0]),
        ([1000000000, 2, 2], ("2", "1000000000"), [1, 0, 0]),  # costs nothing
        ([2**60, 2**60 + 1, 2**60], (str(2**60), str(2**60 + 1)), [0, 1, 0]),  # exactly
    ],
    ids=str,
)
def test_labels_are_the_values_that_occur(
    suffix: str, values: list[Any], names: tuple[str, ...], ids: list[int], tmp_path: Path
) -> None:
    data = in_format(suffix, values, tmp_path)
    assert data.labels == names
    assert data.target.tolist() == ids
    # Another file, which does not have them all, is read with the list of the first.
    again = in_format(suffix, [values[1]] * 3, tmp_path, order=data.labels)
    assert again.target.tolist() == [ids[1]] * 3
    place = {".csv": "line 3", ".parquet": "row 1"}[suffix]
    with pytest.raises(ValueError, match=f"{place}: '77' is not one of the {len(names)} labels"):
        in_format(suffix, [values[0], 77, 77], tmp_path, order=data.labels)


def test_csv_words_are_numbers_only_if_all_are(tmp_path: Path) -> None:
    for words, names in (
        (["1", "1.0", "+1"], ("1",)),
        (["1e1", "9", "0.50"], ("0.5", "9", "10")),
        (["10", "9", "ten"], ("10", "9", "ten")),  # one is not: as text
        (["010", "9", "100"], ("010", "100", "9")),  # codes keep their zeros
        (["1_0", "9", "9"], ("1_0", "9")),
        (["nano", "inf", "1e999"], ("1e999", "inf", "nano")),
        (["9" * 5000, "1", "1"], ("1", "9" * 5000)),
    ):
        assert in_format(".csv", words, tmp_path).labels == names


def test_features_are_read_by_name(tmp_path: Path) -> None:
    text = "a,id,label,b\n1,x,u,2\n3,y,v,4\n"
    data = csv_of(tmp_path, text, features=("b", "a"))
    assert numbers(data) == [[2, 1], [4, 3]]
    assert list(data.X.columns) == ["b", "a"]
    with pytest.raises(
        ValueError, match=r"it lacks the columns 'c', 'd'; it has 'a', 'id', 'label', 'b'"
    ):
        csv_of(tmp_path, text, features=("a", "c", "d"))
    columns = {"a": [1, 3], "label": ["u", "v"], "b": [2, 4]}
    assert numbers(parquet_of(tmp_path, columns, features=("a",))) == [[1], [3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("x,label\n", "a header and no rows"),
        ("x,label", "a header and no rows"),
        (
            "0,1,2\n3.0,4.0,1\n",
            "line 1 holds only numbers: put a line of column names before",
        ),
        ("5.1,3.5,setosa\n4.9,3,setosa\n", "if line 1 is data, put a line of column names"),
        ("x;label\n1;a\n", "its columns are separated by semicolons: separate them by commas"),
        ("x\tlabel\n1\ta\n", "its columns are separated by tabs"),
        ("x,y\n1,2\n", "lacks a column 'label' or 'labels'; it has 'x', 'y'"),
        ("label\na\n", "it has no feature columns"),
        ("x,x,label\n1,2,a\n", "the column 'x' occurs twice"),
        ("x,label\n1,a\n2\n", "line 3: expected 2 columns, as the header has, got 1"),
        ("x,label\n1,a\n2,b,c\n", "line 3: expected 2 columns, as the header has, got 3"),
        (
            "x,label\n" + "".join(f"{i},a\n" for i in range(20)) + "two,b\n",
            "line 22, column 'x': expected a number, as in most rows, got 'two'",
        ),
        ("x,label\nnan,a\n,b\n", "a feature column with different values, got none"),
        (
            "x,label\n1e99,a\n2,b\n",
            r"line 2, column 'x': expected a finite number that fits float32, got '1e99'",
        ),
        ("x,label\n1,a\ninf,b\n", "line 3, column 'x': expected a finite number"),
        ("x,label\n1,\n", "column 'label' must hold labels, got none"),
        ("x,labels\n1,a;;b\n", "line 2, column 'labels': expected a label"),
        (
            "x,labels,weights\n1,a;b,1\n",
            "line 2, column 'weights': expected as many numbers as labels, got ",
        ),
        ("x,labels,weights\n1,a;b,1;-1\n", "'weights': expected a number that is not negative"),
        ("x,labels,weights\n1,a;b,0;0\n", "'weights': expected a positive number"),
        ("x,labels\n1,a;a\n", "line 2, column 'labels': expected each label once"),
        ('x,label\n1,"a\n', "line 2: unexpected end of data"),
        ('x,label\n1,"a\n2,b\n3,c"d\n', "line 4: ',' expected after '\"'"),
    ],
)
@pytest.mark.filterwarnings("ignore:leaving out the column 'x'")
def test_bad_csv(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"table.csv cannot be read as data: .*{message}") as info:
        Encoder.fit(csv_of(tmp_path, text).table)
    assert "\n" not in str(info.value)


def test_a_row_without_a_group(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 2, column 'owner': expected a group, got nothing"):
        csv_of(tmp_path, "x,label,owner\n1,a,\n", group="owner")


def test_csv_labels_out_of_range(tmp_path: Path) -> None:
    # Never as positions in the list: a file that counts from 1 would be read wrong in silence.
    with pytest.raises(ValueError, match=r"line 2: '0' is not one of the 2 labels, 'a', 'b'"):
        csv_of(tmp_path, "x,label\n1,0\n1,1\n", order=("a", "b"))
    with pytest.raises(ValueError, match=r"line 2: 'dgo' .* did you mean 'dog'"):
        csv_of(tmp_path, "x,label\n1,dgo\n", order=("cat", "dog"))
    (tmp_path / "table.csv").write_bytes(b"x,label\n1,\xff\n")
    with pytest.raises(ValueError, match="not UTF-8"):
        read(tmp_path / "table.csv")


def test_parquet_as_others_write_it(tmp_path: Path) -> None:
    data = parquet_of(tmp_path, {"x1": [1, 2], "x0": [3.0, 4.0], "label": ["b", "a"]})
    assert numbers(data) == [[1, 3], [2, 4]]
    assert list(data.X.columns) == ["x1", "x0"]
    data = parquet_of(tmp_path, {"x0": [1.0], "kind": [2]}, label_column="kind")
    assert data.labels == ("2",)
    data = parquet_of(tmp_path, {"x": [1.0, 2.0], "label": [True, False]})
    assert data.labels == ("False", "True")
    categories = pa.array(["b", "a"]).dictionary_encode()
    assert parquet_of(tmp_path, {"x0": [1.0, 2.0], "label": categories}).labels == ("a", "b")
    labels = pa.array([["a", "b"], ["b", "c"]], pa.list_(pa.string(), 2))
    assert parquet_of(tmp_path, {"x": [1, 2], "labels": labels}).labels == ("a", "b", "c")


def test_the_index_of_a_frame_is_not_a_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "label": ["a", "b"]}, index=[7, 3])
    frame.to_parquet(tmp_path / "x.parquet")
    assert list(read(tmp_path / "x.parquet").X.columns) == ["x"]
    assert read_examples(Table.of(frame)).rows.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": [0], "part": [""]}, "it has no feature columns, only 'label', 'part'"),
        ({"x0": [1.0]}, "lacks a column 'label' or 'labels'; it has 'x0'"),
        ({"x0": [1.0, np.inf], "label": [0, 1]}, "row 1, column 'x0': expected a finite number"),
        ({"x0": [[1.0]], "label": [0]}, "column 'x0' must hold numbers, words or dates, got lists"),
        ({"x0": [b"a"], "label": [0]}, "column 'x0' must hold numbers, words or dates, got bytes"),
        ({"x0": [1.0], "label": [{"a": 1}]}, "column 'label' must hold numbers or words, got "),
        (
            {"x0": [1.0], "label": [np.inf]},
            "row 0, column 'label': expected a finite number, got inf",
        ),
        ({"x0": [1.0], "label": [np.nan]}, "column 'label' must hold labels, got none"),
        ({"x0": [1.0], "label": [None]}, "column 'label' must hold labels, got none"),
        ({"x0": [1.0], "labels": [[None, "a"]]}, "row 0, column 'labels': expected a label"),
        ({"x0": [1.0], "labels": [[]]}, "row 0, column 'labels': expected a label"),
        ({"x0": [1.0], "labels": pa.array([None], pa.list_(pa.string()))}, "got none"),
        ({"x0": [1.0, 2.0], "labels": [["a"], None]}, "row 1, column 'labels': expected labels of"),
        (
            {"x0": [1.0], "labels": [[0, 1]], "weights": [[1.0]]},
            "row 0, column 'weights': expected as many numbers as labels",
        ),
        ({"x0": pa.array([], pa.float32()), "label": pa.array([], pa.int8())}, "it has no rows"),
    ],
)
def test_bad_parquet(columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"table.parquet cannot be read as data: .*{message}"):
        Encoder.fit(parquet_of(tmp_path, columns).table)


def test_truncated_at_any_length(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"x": np.arange(9.0), "label": np.arange(9) % 2}), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 61):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="cannot be read as data") as info:
            read(path)
        assert "\n" not in str(info.value)


def test_missing_and_unknown_files(tmp_path: Path) -> None:
    for suffix in (".csv", ".parquet"):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / f"none{suffix}")
    with pytest.raises(ValueError, match=r"a.txt .* must end in one of .csv, .parquet, .pq"):
        read("a.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="a folder without Parquet files"):
        read(tmp_path / "empty")


def test_only_the_label_column_that_is_asked_for_counts(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,labels,target\n1,x,y\n2,y,x\n")
    with pytest.raises(ValueError, match=r"lacks a column 'traget'; .*--label-column target\?"):
        read(path, label_column="traget")
    assert read(path, label_column="labels").labels == ("x", "y")


def test_columns_with_a_name_of_their_own_can_be_features(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,group,part,label\n1,5,2,x\n2,6,3,y\n4,6,2,y\n")
    with pytest.warns(UserWarning, match="'part' divides the rows into '2', '3' and is not a fea"):
        found = read(path)
    assert (list(found.X.columns), list(found.parts)) == (["a", "group"], ["2", "3"])
    found = read(path, features=("a", "part", "group"))
    assert (list(found.X.columns), found.parts) == (["a", "part", "group"], {})
    assert found.groups is None
    found = read(path, drop=("part",), group="group")
    assert found.groups is not None
    assert (list(found.X.columns), found.groups.tolist()) == (["a"], [0, 1, 1])


def test_columns_that_are_chosen(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,who,z,grade\n1,ann,5,a\n2,bob,6,b\n3,ann,7,a\n")
    label = {"label_column": "grade"}
    assert list(read(path, drop=("who",), **label).X.columns) == ["x", "z"]
    assert list(read(path, features=("z",), **label).X.columns) == ["z"]
    with pytest.raises(
        ValueError, match=r"it lacks the column 'whom'; it has .* did you mean 'who'"
    ):
        read(path, drop=("whom",), **label)
    with pytest.raises(ValueError, match=r"lacks a column 'label'.*--label-column grade\?"):
        read(path)


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    folder.mkdir()

    def write(*parts: dict[str, list[object]]) -> None:
        for number, part in enumerate(parts):
            pq.write_table(pa.table({"label": ["x", "y"], **part}), folder / f"{number}.parquet")

    (folder / "README.txt").write_text("not a table")
    write({"a": [1, 2]}, {"label": ["z", "x"], "a": [3.5, 4.0]})
    assert numbers(read(folder)) == [[1.0], [2.0], [3.5], [4.0]]
    assert read(folder).y.tolist() == ["x", "y", "z", "x"]
    write({"a": [1, 2]}, {"z": [3.5, 4.0]})
    with pytest.raises(ValueError, match=r"1.parquet .* it lacks the column 'a'"):
        read(folder)
    write({"a": [True, False]}, {"a": [3, 4]})
    with pytest.raises(
        ValueError, match=r"column 'a' must hold bool.*, as in the first file, got Int64"
    ):
        read(folder)
    write({"a": [1, 2], "label": [7, 8]}, {"a": [3, 4], "label": ["007", "8"]})
    with pytest.raises(
        ValueError, match="column 'label' must hold Int64, as in the first file, got str"
    ):
        read(folder)


def test_frames_from_python() -> None:
    frame = pd.DataFrame({0: [1.0, 2.0], "label": [0, 1]})
    assert list(read_examples(Table.of(frame)).X.columns) == ["0"]
    twice = pd.DataFrame([[1.0, 2.0]], columns=["x", "x"])
    with pytest.raises(ValueError, match="X must have unique column names, got 'x' twice"):
        Table.of(twice)


def test_clipart_is_a_table() -> None:
    table = read_table("clipart")
    found = read_examples(table)
    assert found.X.shape == (3159, 256)
    assert {name: len(rows) for name, rows in found.parts.items()} == {"train": 2218, "test": 941}
    assert table.metric is not None
    assert set(found.labels) == set(table.metric.labels or ())
    assert found.groups is not None
