"""`wassloss metric show`, and the files that `--metric` takes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import wassloss as wl
from tests.app.cli.commands import failed, ok, opened

FILES = {
    "tree.csv": "name,parent,length\ndog,animal,\ncat,animal,2\nrose,plant,\n",
    "distances.csv": ",dog,cat,rose\ndog,0,3,4\ncat,3,0,5\nrose,4,5,0\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_shown_and_trained_with(name: str, tmp_path: Path) -> None:
    file, data, model = tmp_path / name, tmp_path / "pets.csv", tmp_path / "m.wassloss"
    file.write_text(FILES[name])
    text = ok("metric", "show", file, "--near", "cat").stdout
    assert "cat: dog 3, rose 5" in text
    x = np.random.default_rng(0).normal(size=(60, 3))
    frame = pd.DataFrame(x, columns=list("abc"))
    frame.assign(label=np.array(["cat", "dog", "rose"])[x.argmax(1)]).to_csv(data, index=False)
    ok("train", data, "--metric", file, "--tol", 0.1, "--out", model)
    metric = opened(model).metric_
    assert metric.labels == ("dog", "cat", "rose")
    assert metric.distance().tolist() == [[0, 3, 4], [3, 0, 5], [4, 5, 0]]


def test_paths_are_a_taxonomy(tmp_path: Path) -> None:
    file = tmp_path / "paths.csv"
    file.write_text("path\nanimal/dog\nanimal/cat\nplant/rose\n")
    assert "cat: dog 2, rose 4" in ok("metric", "show", file, "--near", "cat").stdout


def test_show(tmp_path: Path) -> None:
    wl.ground.Ordinal(10, labels=list("abcdefghij")).save(tmp_path / "m.npz")
    text = ok("metric", "show", tmp_path / "m.npz", "--near", "c", "-k", 2).stdout
    assert "c: b 1, d 1" in text
    assert "triangle inequality: yes" in text
    assert "  least: 1\n" in text
    assert "  largest: 9\n" in text
    assert "distances in units of 3, the median between two labels" in text
    assert "did you mean" in failed("metric", "show", "clipart", "--near", "boa")
    assert "boat: sailing 0.691" in ok("metric", "show", "clipart", "--near", "boat").stdout
    wl.ground.Ordinal(3).save(tmp_path / "unnamed.npz")
    assert "  0: 1 1, 2 2" in ok("metric", "show", tmp_path / "unnamed.npz").stdout
    assert "built without labels" in failed(
        "metric", "show", tmp_path / "unnamed.npz", "--near", "x"
    )
