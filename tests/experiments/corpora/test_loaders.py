"""Loaders: on the real files if they are present, otherwise on small files written here."""

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments.corpora.arff import read_arff
from experiments.corpora.flickr8k import flickr8k
from experiments.corpora.lookup import find
from experiments.corpora.mnist import mnist, read_idx
from experiments.corpora.mulan import mulan, read_mulan
from experiments.lab.relabel import label_weights
from tests.places import needs
from wassloss import SparseTarget
from wassloss.ground import Embedding, Ordinal


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty $WASSLOSS_DATA, and an empty cache."""
    monkeypatch.setenv("WASSLOSS_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_mnist(folder: Path, packed: bool) -> None:
    (folder / "mnist").mkdir(parents=True)
    for part, n in (("train", 4), ("t10k", 3)):
        images = np.full((n, 2, 2), 255, dtype=np.uint8)
        for name, array in (("images-idx3", images), ("labels-idx1", np.arange(n, dtype="u1"))):
            path = folder / "mnist" / f"{part}-{name}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))


@needs("mnist/train-images-idx3-ubyte.gz")
def test_real_mnist() -> None:
    data = mnist()
    assert (len(data.part("train")), len(data.part("test"))) == (60_000, 10_000)
    assert isinstance(data.target, torch.Tensor)
    assert data.target[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert data.features[0].sum().item() == pytest.approx(27525 / 255)


@needs("flickr8k/flickr8k_efflite0_tags.npz")
def test_real_flickr8k() -> None:
    data = flickr8k()
    assert {name: len(rows) for name, rows in data.parts.items()} == {
        "train": 6000,
        "validation": 1000,
        "test": 1000,
    }
    assert data.features.shape == (8091, 1280)
    assert isinstance(data.target, SparseTarget)
    torch.testing.assert_close(data.target.weights.sum(1), torch.ones(8091))
    assert data.label_names is not None
    first = data.target.indices[0][data.target.weights[0] > 0]
    # Its captions: a girl in a pink dress climbs the stairs of a wooden cabin.
    assert {data.label_names[i] for i in first} >= {"girl"}
    if data.metric is not None:
        assert data.metric.nearest("dog", 1)[0][0] == "cat"


@needs("delicious/delicious-train.arff.gz")
def test_real_delicious() -> None:
    data = mulan()
    assert data.features.shape == (16_091, 500)
    assert data.label_count == 983
    assert data.label_names is not None
    assert data.label_names[:3] == (".imported", ".net", "2.0")
    assert "14 examples without a label" in data.provenance
    assert set(data.features.unique().tolist()) == {0, 1}
    # The first row is {60 1, 248 1, 279 1, 316 1, 490 1, 577 1, ...}; labels start at 500.
    assert data.features[0].nonzero().squeeze(1).tolist() == [60, 248, 279, 316, 490]
    assert isinstance(data.target, SparseTarget)
    assert data.target.indices[0][:3].tolist() == [77, 91, 315]
    assert data.target.weights[0].count_nonzero() == 11


@pytest.mark.parametrize("packed", [True, False])
def test_mnist_packed_or_not(folder: Path, packed: bool) -> None:
    write_mnist(folder, packed)
    data = mnist()
    assert torch.equal(data.features, torch.ones(7, 4))
    assert isinstance(data.target, torch.Tensor)
    assert data.target.tolist() == [0, 1, 2, 3, 0, 1, 2]
    assert data.parts["test"].tolist() == [4, 5, 6]
    assert isinstance(data.metric, Ordinal)


def test_the_cache_is_searched_too(folder: Path) -> None:
    write_mnist(folder / "cache" / "wassloss", packed=True)
    assert len(mnist()) == 7


def test_a_missing_file_is_asked_for_by_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = folder / "mnist" / "train-images-idx3-ubyte.gz"
    cached = folder / "cache" / "wassloss" / "mnist" / "train-images-idx3-ubyte.gz"
    with pytest.raises(FileNotFoundError, match=f"put the file at {wanted} or at {cached}"):
        mnist()
    monkeypatch.delenv("WASSLOSS_DATA")
    with pytest.raises(FileNotFoundError, match=r"WASSLOSS_DATA is not set"):
        find("mnist", "x")
    with pytest.raises(FileNotFoundError, match=r"flickr8k_efflite0_tags\.npz"):
        flickr8k()
    with pytest.raises(FileNotFoundError, match=r"bibtex-train\.arff"):
        mulan("bibtex")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw[:-1], "cut short: its header promises 12 bytes of data, got 11"),
        (lambda raw: raw + b"x", "promises 12 bytes of data, got 13"),
        (lambda raw: raw[:9], "cut short: it ends within its header"),
        (lambda raw: b"\x01" + raw[1:], "not an idx file: it begins with 01 00 08 03"),
        (lambda _: b"", "not an idx file: it begins with nothing"),
        (lambda raw: gzip.compress(raw)[:-9], "is damaged or cut short"),
    ],
)
def test_damaged_idx(change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "digits"
    path.write_bytes(change(idx(np.zeros((3, 2, 2), dtype=np.uint8))))
    with pytest.raises(ValueError, match=f"digits .*{message}"):
        read_idx(path)


def test_flickr8k_without_vectors_and_with(folder: Path) -> None:
    (folder / "flickr8k").mkdir()
    arrays: dict[str, Any] = {
        "features": np.ones((3, 2), dtype=np.float16),
        "split": np.array(["train", "dev", "test"]),
        "vocab": np.array(["dog", "cat"]),
        "counts_data": np.array([3, 1, 2, 5], dtype=np.uint8),
        "counts_indices": np.array([0, 1, 0, 1]),
        "counts_indptr": np.array([0, 2, 3, 4]),
    }
    path = folder / "flickr8k" / "flickr8k_efflite0_tags.npz"
    np.savez(path, **arrays)
    data = flickr8k()
    assert data.metric is None
    assert "no metric" in data.provenance
    assert label_weights(data).tolist() == [1.75, 1.25]
    assert label_weights(flickr8k(counts=True)).tolist() == [5, 6]
    (folder / "glove").mkdir()
    (folder / "glove" / "words.txt").write_text("cat\nthe\ndog\n")
    np.save(folder / "glove" / "glove_100d.npy", np.eye(3, dtype=np.float16))
    metric = flickr8k().metric
    assert isinstance(metric, Embedding)
    assert metric.vectors.tolist() == [[0, 0, 1], [1, 0, 0]]
    np.savez(path, **{k: v for k, v in arrays.items() if k != "vocab"})
    with pytest.raises(ValueError, match="is not the Flickr8k tags: it lacks vocab"):
        flickr8k()


ARFF = """% remark
@relation pages

@attribute length numeric
@attribute 'has "quotes"' {0,1}
@attribute kind {long,short}
@ATTRIBUTE TAG_a {0,1}
@attribute TAG_b {0,1}
@data
"""
XML = '<labels><label name="TAG_a"><label name="TAG_b"/></label></labels>'
DENSE = ARFF + "1.5, 1, short, 1, 0\n2,0,long,1,1\n3,0,long,0,0\n"
SPARSE = ARFF + "{0 1.5,1 1, 2 short,3 1}\n{0 2,3 1,4 1}\n{0 3}\n"


@pytest.mark.parametrize("text", [DENSE, SPARSE])
def test_mulan_dense_and_sparse(text: str, tmp_path: Path) -> None:
    (tmp_path / "pages.arff").write_text(text)
    (tmp_path / "pages.xml").write_text(XML)
    data = read_mulan(tmp_path / "pages.arff", tmp_path / "pages.xml", label_prefix="TAG_")
    assert data.features.tolist() == [[1.5, 1, 1], [2, 0, 0]]
    assert data.label_names == ("a", "b")
    assert label_weights(data).tolist() == [1.5, 0.5]
    assert "1 examples without a label are left out" in data.provenance


def test_what_a_sparse_row_omits_is_the_first_category(tmp_path: Path) -> None:
    path = tmp_path / "odd.arff"
    path.write_text("@attribute odd {1,0}\n@attribute x real\n@data\n{}\n{0 0,1 7}\n")
    assert read_arff(path).values.toarray().tolist() == [[1, 0], [0, 7]]
    assert read_arff(path).names == ("odd", "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ARFF + "1,1,long,1\n", "line 10: expected 5 values, one for each attribute, got 4"),
        (ARFF + "1,1,long,1,0,0\n", "line 10: expected 5 values, one for each attribute, got 6"),
        (ARFF + "1,1,long,1,2\n", "line 10: attribute 4: expected one of 0, 1, got '2'"),
        (ARFF + "?,1,long,1,0\n", r"line 10: attribute 0: expected a number, .* missing value"),
        (ARFF + "{0 1,9 1}\n", "line 10: expected an attribute number below 5, got '9'"),
        (ARFF + "{3 1,3 1}\n", "line 10: attribute 3 occurs twice"),
        (ARFF + "{0 1,3", "line 10: expected a closing }"),
        (ARFF, "has no data"),
        (ARFF[:40], "line 4: "),
        ("", "has no data"),
        ("1,2\n", "line 1: expected @attribute or @data"),
        ("@attribute x string\n", "line 1: attribute 'x' must be numeric or have categories"),
        ("@attribute x {a,b,c}\n", "line 1: attribute 'x' must be numeric or have two categories"),
    ],
)
def test_bad_arff(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "pages.arff").write_text(text)
    with pytest.raises(ValueError, match=f"pages.arff.*{message}"):
        read_arff(tmp_path / "pages.arff")


def test_bad_mulan(tmp_path: Path) -> None:
    arff, xml = tmp_path / "pages.arff", tmp_path / "pages.xml"
    arff.write_text(SPARSE)
    for text, message in (
        (XML[:30], "is not whole XML"),
        ('<!DOCTYPE x [<!ENTITY a "b">]>' + XML, "must be plain XML, without declarations"),
        ("<labels/>", "must hold elements <label name=...>, got 0"),
        (XML.replace("TAG_b", "TAG_c"), "label 'TAG_c' is no attribute"),
    ):
        xml.write_text(text)
        with pytest.raises(ValueError, match=f"pages.xml.*{message}"):
            read_mulan(arff, xml)
    xml.write_text(XML)
    other = tmp_path / "other.arff"
    other.write_text(SPARSE.replace("length", "width"))
    with pytest.raises(ValueError, match=r"other\.arff must have the attributes of the first file"):
        read_mulan({"train": arff, "test": other}, xml)
    arff.write_bytes(gzip.compress(SPARSE.encode())[:-10])
    with pytest.raises(ValueError, match=r"pages\.arff is damaged or cut short"):
        read_mulan(arff, xml)


def test_numbers_too_large_for_float32(tmp_path: Path) -> None:
    (tmp_path / "x.arff").write_text(
        "@relation r\n@attribute u numeric\n@attribute v numeric\n@attribute t {0,1}\n"
        "@data\n1,2,1\n1,1e200,1\n"
    )
    (tmp_path / "x.xml").write_text('<labels><label name="t"></label></labels>')
    with pytest.raises(
        ValueError, match=r"line 7: attribute 1: expected a number that fits float32, got '1e200'"
    ):
        read_mulan(tmp_path / "x.arff", tmp_path / "x.xml")
