"""Round trips in every format, and files that are not what they should be."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.data.tables import saved
from wassloss import SparseTarget
from wassloss.data import Dataset, DataWarning, read
from wassloss.data.files import read_wanted
from wassloss.data.table import Wanted
from wassloss.targets import is_class_ids

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SUFFIXES = [".parquet", ".csv"]
N = 7


def targets(kind: str) -> Any:
    if kind == "classes":
        return torch.arange(N) % 3
    if kind == "dense":
        return torch.rand(N, 3)
    if kind == "tags":  # each example's labels share a mass of 1
        return SparseTarget(torch.tensor([[0, 2]] * N), torch.full((N, 2), 0.5))
    weights = torch.rand(N, 2) + 0.1
    return SparseTarget(torch.tensor([[2, 1]] * (N - 1) + [[0, 0]]), weights * _one_in_last())


def _one_in_last() -> torch.Tensor:
    mask = torch.ones(N, 2)
    mask[-1, 1] = 0
    return mask


def example(kind: str, **fields: Any) -> Dataset:
    features = torch.randn(N, 4)
    features[:, 3] = 0  # a column that a sparse format leaves out
    return Dataset(features, targets(kind), **({"label_names": ("a", "b", "c")} | fields))


def all_features(path: Path, names: tuple[str, ...] | None = None) -> torch.Tensor:
    """Read as for a prediction."""
    return read_wanted(path, Wanted(feature_names=names, labelled=False)).features


def dense(data: Dataset) -> torch.Tensor:
    if is_class_ids(data.target):
        return torch.nn.functional.one_hot(data.target, data.label_count).double()
    return torch.from_numpy(data.y.toarray())


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", ["classes", "dense", "tags", "weighted"])
def test_round_trip(suffix: str, kind: str, tmp_path: Path) -> None:
    data = example(kind)
    path = tmp_path / f"data{suffix}"
    saved(data, path)
    again = read(path, label_names=data.label_names)
    assert torch.equal(again.features.float(), data.features)
    assert torch.equal(dense(again), dense(data))
    assert again.label_names == data.label_names
    assert isinstance(again.target, torch.Tensor) == (kind == "classes") or kind == "dense"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]  # no temporary is left


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_parts_and_groups_are_kept(suffix: str, tmp_path: Path) -> None:
    data = example("classes", parts={"train": [0, 2], "test": [5]}, groups=torch.arange(N) // 2)
    saved(data, tmp_path / f"data{suffix}")
    again = read(tmp_path / f"data{suffix}", group="group")
    assert {k: v.tolist() for k, v in again.parts.items()} == {"train": [0, 2], "test": [5]}
    assert again.groups is not None
    assert again.groups.tolist() == [0, 0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", ["classes", "dense", "tags"])
def test_labels_come_in_the_order_that_is_asked_for(suffix: str, kind: str, tmp_path: Path) -> None:
    data = example(kind)
    path = saved(data, tmp_path / f"data{suffix}")
    again = read(path, label_names=("c", "more", "b", "a"))
    assert again.label_names == ("c", "more", "b", "a")
    torch.testing.assert_close(dense(again)[:, [3, 2, 0]], dense(data))
    with pytest.raises(ValueError, match="'c'"):
        read(path, label_names=("a", "b", "x"))


def csv_of(tmp_path: Path, text: str, **options: Any) -> Dataset:
    path = tmp_path / "table.csv"
    path.write_text(text)
    return read(path, **options)


def test_csv_as_people_write_it(tmp_path: Path) -> None:
    data = csv_of(tmp_path, "\ufeffage, label ,height\n3,dog,1e2\n\n4,cat,50\n")
    assert data.features.tolist() == [[3, 100], [4, 50]]
    assert data.label_names == ("cat", "dog")
    assert isinstance(data.target, torch.Tensor)
    assert data.target.tolist() == [1, 0]
    # A test file lacks a label, and its names are the train file's.
    data = csv_of(tmp_path, "x,label\n1,cat\n2,dog\n", label_names=("ant", "cat", "dog"))
    assert isinstance(data.target, torch.Tensor)
    assert data.target.tolist() == [1, 2]
    data = csv_of(tmp_path, "x,grade\n1,4\n2,0\n", label_column="grade")
    assert data.label_names == ("0", "4")
    data = csv_of(tmp_path, 'x,label\n1,a;\n2,"b, ""c"""\n')  # one label each
    assert data.label_names == ("a;", 'b, "c"')
    data = csv_of(tmp_path, "x,labels\n1,sea; sky\n2,sky\n")
    assert data.label_names == ("sea", "sky")
    assert dense(data).tolist() == [[0.5, 0.5], [0, 1]]


def in_format(suffix: str, values: list[Any], folder: Path, **options: Any) -> Dataset:
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
    assert data.label_names == names
    assert data.label_count == len(names)
    assert isinstance(data.target, torch.Tensor)
    assert data.target.tolist() == ids
    # Another file, which does not have them all, is read with the list of the first.
    again = in_format(suffix, [values[1]] * 3, tmp_path, label_names=data.label_names)
    assert isinstance(again.target, torch.Tensor)
    assert again.target.tolist() == [ids[1]] * 3
    place = {".csv": "line 3", ".parquet": "row 1"}[suffix]
    with pytest.raises(ValueError, match=f"{place}: '77' is none of the {len(names)} labels"):
        in_format(suffix, [values[0], 77, 77], tmp_path, label_names=data.label_names)


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
        assert in_format(".csv", words, tmp_path).label_names == names


def test_features_are_read_by_name(tmp_path: Path) -> None:
    text = "a,id,label,b\n1,x,u,2\n3,y,v,4\n"
    data = csv_of(tmp_path, text, feature_names=("b", "a"))
    assert data.features.tolist() == [[2, 1], [4, 3]]
    assert data.feature_names == ("b", "a")
    with pytest.raises(
        ValueError, match=r"it lacks the columns 'c', 'd'; it has 'a', 'id', 'label', 'b'"
    ):
        csv_of(tmp_path, text, feature_names=("a", "c", "d"))
    for suffix in SUFFIXES:
        saved(data, tmp_path / f"data{suffix}")
        again = read(tmp_path / f"data{suffix}", feature_names=("a",))
        assert again.feature_names == ("a",)
        assert again.features.tolist() == [[1], [3]]
        only = all_features(tmp_path / f"data{suffix}", ("a", "b"))
        assert only.tolist() == [[1, 2], [3, 4]]
        with pytest.raises(ValueError, match="it lacks the column 'c'"):
            read(tmp_path / f"data{suffix}", feature_names=("c",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("x,label\n", "a header and no rows"),
        ("x,label", "a header and no rows"),
        (
            "0,1,2\n3.0,4.0,1\n",
            "line 1 holds only numbers: put a line with the columns' names before",
        ),
        ("5.1,3.5,setosa\n4.9,3,setosa\n", "if line 1 is data, put a line with the columns' names"),
        ("x,y\n1,2\n", "lacks a column 'label' or 'labels'; it has 'x', 'y'"),
        ("label\na\n", "lacks a column of features"),
        ("x,x,label\n1,2,a\n", "the column 'x' occurs twice"),
        ("x,label\n1,a\n2\n", "line 3: expected 2 columns, as the header has, got 1"),
        (
            "x,label\n" + "".join(f"{i},a\n" for i in range(20)) + "two,b\n",
            "line 22, column 'x': expected a number, as in most rows, got 'two'",
        ),
        ("x,label\nnan,a\n,b\n", "a column that says something, got none"),
        (
            "x,label\n1e99,a\n",
            "line 2, column 'x': expected a finite number that fits float32, got 1e\\+99",
        ),
        ("x,label\n1,\n", "column 'label' must hold labels, got none"),
        ("x,labels\n1,a;;b\n", "line 2, column 'labels': expected a label"),
        (
            "x,labels,weights\n1,a;b,1\n",
            "line 2, column 'weights': expected as many numbers as labels, got ",
        ),
        ("x,labels\n1,a;a\n", "each label once per example"),
        ('x,label\n1,"a\n', "line 2: unexpected end of data"),
        ('x,label\n1,"a\n2,b\n3,c"d\n', "line 4: ',' expected after '\"'"),
    ],
)
def test_bad_csv(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"table.csv cannot be read as data: .*{message}") as info:
        csv_of(tmp_path, text)
    assert "\n" not in str(info.value)


def test_a_row_without_a_group(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 2, column 'owner': expected a group, got nothing"):
        csv_of(tmp_path, "x,label,owner\n1,a,\n", group="owner")


def test_csv_labels_out_of_range(tmp_path: Path) -> None:
    # Never as positions in the list: a file that counts from 1 would be read wrong in silence.
    with pytest.raises(ValueError, match=r"line 2: '0' is none of the 2 labels, 'a', 'b'"):
        csv_of(tmp_path, "x,label\n1,0\n1,1\n", label_names=("a", "b"))
    with pytest.raises(ValueError, match=r"line 2: 'dgo' .* did you mean 'dog'"):
        csv_of(tmp_path, "x,label\n1,dgo\n", label_names=("cat", "dog"))
    (tmp_path / "table.csv").write_bytes(b"x,label\n1,\xff\n")
    with pytest.raises(ValueError, match="not UTF-8"):
        read(tmp_path / "table.csv")


def parquet_of(tmp_path: Path, columns: dict[str, Any], **options: Any) -> Dataset:
    pq.write_table(pa.table(columns), tmp_path / "table.parquet")
    return read(tmp_path / "table.parquet", **options)


def test_parquet_as_others_write_it(tmp_path: Path) -> None:
    data = parquet_of(tmp_path, {"x1": [1, 2], "x0": [3.0, 4.0], "label": ["b", "a"]})
    assert data.features.tolist() == [[1, 3], [2, 4]]
    assert data.feature_names == ("x1", "x0")
    assert data.label_names == ("a", "b")
    lists = {"x": [1.0, 2.0], "labels": [["sea", "sky"], ["sky"]]}
    data = parquet_of(tmp_path, lists)
    assert dense(data).tolist() == [[0.5, 0.5], [0, 1]]
    data = parquet_of(tmp_path, {"x0": [1.0], "kind": [2]}, label_column="kind")
    assert data.label_names == ("2",)
    named = {"age": [1.0, 2.0], "label": ["b", "a"], "height": [3.0, 4.0], "part": ["train"] * 2}
    data = parquet_of(tmp_path, named)
    assert data.feature_names == ("age", "height")
    assert parquet_of(tmp_path, named, feature_names=("height",)).features.tolist() == [[3], [4]]
    data = parquet_of(tmp_path, {"x": [1.0, 2.0], "none": [None, None], "label": [True, False]})
    assert (data.feature_names, data.label_names) == (("x",), ("False", "True"))
    categories = pa.array(["b", "a"]).dictionary_encode()
    assert parquet_of(tmp_path, {"x0": [1.0, 2.0], "label": categories}).label_names == ("a", "b")


def test_lists_of_a_fixed_length_are_lists(tmp_path: Path) -> None:
    labels, weights = [["a", "b"], ["b", "c"]], [[0.5, 0.5], [0.25, 0.75]]
    plain = parquet_of(tmp_path, {"x": [1.0, 2.0], "labels": labels, "weights": weights})
    columns = {
        "x": [1.0, 2.0],
        "labels": pa.array(labels, pa.list_(pa.string(), 2)),
        "weights": pa.array(weights, pa.list_(pa.float64(), 2)),
    }
    fixed = parquet_of(tmp_path, columns)
    assert fixed.label_names == plain.label_names == ("a", "b", "c")
    assert dense(fixed).tolist() == dense(plain).tolist()


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0, 2.0], "label": ["b", "a"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"label": ["c"], "x": [0.5]}), tmp_path / "2.parquet")
    data = read(tmp_path)
    assert data.features.tolist() == [[1], [2], [0.5]]
    assert data.y.tolist() == ["b", "a", "c"]
    pq.write_table(pa.table({"label": ["c"], "z": [0.5]}), tmp_path / "3.parquet")
    with pytest.raises(ValueError, match=r"3.parquet .* it lacks the column 'x'"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": [0], "part": [""]}, "lacks a column of features; it has 'label', 'part'"),
        ({"city": ["Ulm"], "label": [0]}, "a column that says something, got none"),
        ({"x0": [1.0]}, "lacks a column 'label' or 'labels'; it has 'x0'"),
        ({"x0": [1.0, np.inf], "label": [0, 1]}, "row 1, column 'x0': expected a finite number"),
        ({"x0": [[1.0]], "label": [0]}, "column 'x0' must hold numbers or words, got list"),
        ({"x0": [1.0], "label": [{"a": 1}]}, "column 'label' must hold numbers or strings, got st"),
        (
            {"x0": [1.0], "label": [np.inf]},
            "row 0, column 'label': expected a finite number, got inf",
        ),
        ({"x0": [1.0], "label": [np.nan]}, "column 'label' must hold labels, got none"),
        ({"x0": [1.0], "label": [None]}, "column 'label' must hold labels, got none"),
        ({"x0": [1.0], "labels": [[None, "a"]]}, "row 0, column 'labels': expected a label"),
        (
            {"x0": [1.0], "labels": [[0, 1]], "weights": [[1.0]]},
            "row 0, column 'weights': expected as many numbers as labels",
        ),
        ({"x0": [1.0], "labels": [[]]}, ""),
        ({"x0": pa.array([], pa.float32()), "label": pa.array([], pa.int8())}, "it has no rows"),
    ],
)
def test_bad_parquet(columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"table.parquet cannot be read as data: .*{message}"):
        parquet_of(tmp_path, columns)


def test_truncated_at_any_length(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    saved(example("tags"), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 61):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="cannot be read as data") as info:
            read(path)
        assert "\n" not in str(info.value)


def test_missing_and_unknown_files(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        with pytest.raises(FileNotFoundError):
            read(tmp_path / f"none{suffix}")
    with pytest.raises(ValueError, match=r"a.txt .* must end in one of .csv, .parquet, .pq"):
        read("a.txt")
    with pytest.raises(ValueError, match="label_column is for tables"):
        read("clipart", label_column="x")


def test_only_the_label_column_that_is_asked_for_counts(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,labels,target\n1,x,y\n2,y,x\n")
    with pytest.raises(ValueError, match=r"lacks a column 'traget'; .*--label-column target\?"):
        read(path, label_column="traget")
    assert read(path, label_column="labels").label_names == ("x", "y")


def test_columns_with_a_name_of_their_own_can_be_features(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,group,part,label\n1,5,2,x\n2,6,3,y\n4,6,2,y\n")
    with pytest.warns(DataWarning, match="'part' divides the rows into '2', '3', and is not a fea"):
        found = read(path)
    assert (found.feature_names, list(found.parts)) == (("a", "group"), ["2", "3"])
    found = read(path, feature_names=("a", "part", "group"))
    assert (found.feature_names, found.parts) == (("a", "part", "group"), {})
    assert found.groups is None
    assert read(path, like=found).feature_names == found.feature_names
    found = read(path, drop=("part",), group="group")
    assert (found.feature_names, found.groups.tolist()) == (("a",), [0, 1, 1])


def test_a_process_may_end_as_soon_as_it_has_read_a_csv(tmp_path: Path) -> None:
    """Threads of Arrow that freed memory of Python's aborted two of five such processes."""
    (tmp_path / "x.csv").write_text("a,b,c,grade\n" + "1,2,3,low\n" * 500)
    code = """
import sys, wassloss as wl
try:
    wl.data.read(sys.argv[1])
except ValueError:  # it has no column label
    sys.exit(3)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "x.csv")]
    some = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait() for process in some] == [3] * 2


def test_files_of_a_folder_may_have_different_types_but_not_lose_values(tmp_path: Path) -> None:
    """Arrow's own data sets would force the first file's types on the others."""
    folder = tmp_path / "table"
    folder.mkdir()

    def write(*parts: dict[str, list[object]]) -> None:
        for number, part in enumerate(parts):
            pq.write_table(pa.table({"label": ["x", "y"], **part}), folder / f"{number}.parquet")

    (folder / "README.txt").write_text("not a table")
    write({"a": [1, 2]}, {"a": [3.5, 4.0]})
    assert read(folder).features.tolist() == [[1.0], [2.0], [3.5], [4.0]]
    write({"a": [True, False]}, {"a": [3, 4]})
    with pytest.raises(ValueError, match="cannot be read"):
        read(folder)
    write({"a": [1, 2], "label": [7, 8]}, {"a": [3, 4], "label": ["007", "8"]})
    with pytest.raises(ValueError, match="cannot be read"):
        read(folder)
