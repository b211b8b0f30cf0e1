"""`wassloss data ...`, as its user runs it."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")
from typer.testing import CliRunner

from scripts.make_yfcc_metadata import write_metadata
from tests.data.places import needs
from wassloss import data
from wassloss.cli.data import app
from wassloss.data import Dataset, TagSample
from wassloss.ground import load

WORDS = ("dog", "cat", "beach", "paris")
INDEX = "".join(f"{word} n 1 1 @ 1 1 0000000{i}\n" for i, word in enumerate(WORDS))
SENSES = zip(WORDS, ("05", "05", "17", "15"), strict=True)
DATA = "".join(f"0000000{i} {c} n 01 {w} 0 000 | a word\n" for i, (w, c) in enumerate(SENSES))


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_show() -> None:
    shown = run("show", "clipart", "--examples", 2)
    assert "3159 examples" in shown
    assert shown.count("nearest to") == 2
    assert "49 labels" in run("show", "lattice")


@needs("delicious/delicious.xml")
def test_show_what_the_user_has() -> None:
    assert "983 labels" in run("show", "delicious")


def test_show_a_file(tmp_path: Path) -> None:
    data.write(Dataset([[0.0], [1.0]], [0, 1], label_names=("a", "b")), tmp_path / "d.npz")
    assert "2 examples, 1 feature, 2 labels" in run("show", tmp_path / "d.npz")
    with pytest.raises(ValueError, match=r"NAME must be one of clipart, .*, or a file, got 'nope'"):
        run("show", "nope")


def test_show_with_word_vectors(tmp_path: Path) -> None:
    made = Dataset([[0.0], [1.0], [2.0]], [0, 1, 2], label_names=("cat", "qzx", "dog"))
    data.write(made, tmp_path / "d.npz")
    (tmp_path / "glove.txt").write_text("dog 1 0\ncat 1 1\n")
    shown = run("show", tmp_path / "d.npz", "--vectors", tmp_path / "glove.txt")
    assert "1 labels have no vector and are left out" in shown
    assert "2 examples, 1 feature, 2 labels" in shown
    assert "nearest to cat: dog 0.765" in shown


def test_show_other_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matlab = pytest.importorskip("scipy.io")
    weights = {"features": np.eye(2), "labels": np.array([[0.5, 0.5], [0.1, 0.9]])}
    matlab.savemat(tmp_path / "d.mat", weights)
    assert "2 examples, 2 features, 2 labels, dense targets" in run("show", tmp_path / "d.mat")
    toys = tmp_path / "toys"
    toys.mkdir()
    arff = "@relation r\n@attribute x numeric\n@attribute cat {0,1}\n@attribute dog {0,1}\n@data\n"
    for part, rows in (("train", "1,0,1\n2,1,1\n"), ("test", "3,1,0\n")):
        (toys / f"toys-{part}.arff").write_text(arff + rows)
    labels = '<labels><label name="cat"></label><label name="dog"></label></labels>'
    (toys / "toys.xml").write_text(labels)
    assert "2 examples, 1 feature, 2 labels" in run("show", toys / "toys-train.arff")
    assert "cat (1)" in run("show", toys / "toys-test.arff", "--xml", toys / "toys.xml")
    monkeypatch.setenv("WASSLOSS_DATA", str(tmp_path))
    assert "'toys', 3 examples, 1 feature, 2 labels, sparse targets, 2 train" in run("show", "toys")


def test_get_needs_a_known_name() -> None:
    with pytest.raises(ValueError, match="name must be one of mnist, glove, word2vec, got 'nope'"):
        run("get", "nope")


def test_tags(tmp_path: Path) -> None:
    net = tmp_path / "wordnet"
    net.mkdir()
    (net / "index.noun").write_text(INDEX)
    (net / "data.noun").write_text(DATA)
    (tmp_path / "glove.txt").write_text("dog 1 0\ncat 1 1\nbeach 0 1\nparis 1 2\n")
    write_metadata(tmp_path / "metadata.bz2", 600, WORDS)
    out = tmp_path / "out"
    given = [
        *("tags", tmp_path / "metadata.bz2", "--vectors", tmp_path / "glove.txt", "--out", out),
        *("--wordnet", net, "--tags", 3, "--train", 40, "--test", 20, "--workers", 1),
    ]
    said = run(*given)
    assert said.startswith("600 lines")
    assert "1 malformed\n  1: neither 23 nor 25 columns" in said
    sample = TagSample.load(out / "tags.npz")
    assert set(sample.label_names) == {"dog", "cat", "beach"}  # paris is a location
    assert (out / "vocabulary.tsv").read_text().startswith("tag\tphotos\tcategory\n")

    features = np.random.default_rng(0).normal(size=(60, 5))
    np.savez(tmp_path / "features.npz", photos=sample.photos[::-1], features=features)
    assert "60 examples" in run(*given, "--features", tmp_path / "features.npz")
    made = data.read(out / "data.npz")
    np.testing.assert_allclose(made.features.numpy(), features[::-1], rtol=1e-6)
    assert data.read(out / "data.parquet").label_names == sample.label_names
    assert load(out / "metric.npz").labels == sample.label_names

    (tmp_path / "stop.txt").write_text("dog\n")
    other = [*given[:-8], "--tags", 2, "--train", 40, "--test", 20, "--workers", 1]
    with pytest.raises(ValueError, match="is the state of another run, whose tags"):
        run(*other, "--stop-words", tmp_path / "stop.txt")
    run(*other, "--stop-words", tmp_path / "stop.txt", "--restart")
    assert set(TagSample.load(out / "tags.npz").label_names) == {"cat", "beach"}
    with pytest.raises(ValueError, match="--missing must be drop or error"):
        run(*given, "--missing", "skip")
