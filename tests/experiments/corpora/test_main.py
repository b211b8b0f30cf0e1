"""The command line `python -m experiments.corpora ...`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.corpora.__main__ import main
from experiments.corpora.tagging import TagSample
from scripts.make_yfcc_metadata import write_metadata
from tests.places import needs
from wassloss.app.examples import read_examples
from wassloss.app.tables import read_table
from wassloss.ground import GroundMetric

WORDS = ("dog", "cat", "beach", "paris")
INDEX = "".join(f"{word} n 1 1 @ 1 1 0000000{i}\n" for i, word in enumerate(WORDS))
SENSES = zip(WORDS, ("05", "05", "17", "15"), strict=True)
DATA = "".join(f"0000000{i} {c} n 01 {w} 0 000 | a word\n" for i, (w, c) in enumerate(SENSES))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: object) -> str:
        main([str(one) for one in arguments])
        return capsys.readouterr().out

    return run


def test_show_what_is_made(run: Any) -> None:
    assert "49 labels" in run("show", "lattice")


@needs("delicious/delicious.xml")
def test_show_what_the_user_has(run: Any) -> None:
    assert "983 labels" in run("show", "delicious")


def test_show_a_set_of_mulan(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toys = tmp_path / "toys"
    toys.mkdir()
    arff = "@relation r\n@attribute x numeric\n@attribute cat {0,1}\n@attribute dog {0,1}\n@data\n"
    for part, rows in (("train", "1,0,1\n2,1,1\n"), ("test", "3,1,0\n")):
        (toys / f"toys-{part}.arff").write_text(arff + rows)
    labels = '<labels><label name="cat"></label><label name="dog"></label></labels>'
    (toys / "toys.xml").write_text(labels)
    assert "2 examples, 1 features, 2 labels" in run("show", toys / "toys-train.arff")
    assert "1 examples, 1 features, 2 labels" in run(
        "show", toys / "toys-test.arff", "--xml", toys / "toys.xml"
    )
    monkeypatch.setenv("WASSLOSS_DATA", str(tmp_path))
    assert "'toys', 3 examples, 1 features, 2 labels, 2 train" in run("show", "toys")
    with pytest.raises(ValueError, match=r"name must be one of lattice, .* or an \.arff file, got"):
        run("show", "nope")


def test_tags(run: Any, tmp_path: Path) -> None:
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
    made = read_examples(read_table(out / "data.parquet"))
    np.testing.assert_allclose(made.X.to_numpy(float), features[::-1], rtol=1e-6)
    assert set(made.labels) == set(sample.label_names)
    assert GroundMetric.load(out / "metric.npz").labels == sample.label_names

    (tmp_path / "stop.txt").write_text("dog\n")
    other = [*given[:-8], "--tags", 2, "--train", 40, "--test", 20, "--workers", 1]
    with pytest.raises(ValueError, match="is the state of another run, whose tags"):
        run(*other, "--stop-words", tmp_path / "stop.txt")
    run(*other, "--stop-words", tmp_path / "stop.txt", "--restart")
    assert set(TagSample.load(out / "tags.npz").label_names) == {"cat", "beach"}
