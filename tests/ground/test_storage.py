"""Damaged and foreign files; the round trip is tested in test_laws.py."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wassloss.ground import (
    Discrete,
    Embedding,
    Graph,
    Grid,
    GroundMetric,
    Matrix,
    Ordinal,
    Subset,
    Tree,
)

Arrays = dict[str, Any]


def _arrays(metric: GroundMetric, path: Path) -> Arrays:
    metric.save(path)
    with np.load(path) as archive:
        return dict(archive)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"kind": np.array("Torus")},
            "kind 'Torus' is unknown, expected one of Discrete",
        ),
        ({"format": np.array(2)}, "format 2 is unknown, this version reads format 1"),
        ({"dtype": np.array("int8")}, "dtype 'int8' is unknown"),
        ({"power": None}, "it lacks power"),
        ({"spacing": None, "norm": None}, "it lacks norm, spacing"),
        ({"power": np.array([1.0, 2.0])}, "power must be a single value, got shape \\(2,\\)"),
        ({"power": np.array(np.nan)}, "power must be a finite"),
        ({"scale": np.array(0.0)}, "scale must be"),
        ({"labels": np.array(["a", "b"])}, "labels must hold 6 names, got 2"),
        ({"labels": np.array([1.0])}, "labels must be a list of names"),
        ({"labels": np.array("ab")}, "labels must be a list, got shape"),
        ({"kind": np.array(["Grid", "Grid"])}, "kind must be a single value"),
        ({"format": np.array([1])}, "format must be a single value"),
        ({"spacing": np.array(1.0)}, "spacing must be a list"),
        ({"spacing": np.ones(3)}, "spacing must be one number or 2, got 3"),
        ({"spacing": np.array(["wide"])}, "spacing must hold real numbers"),
        ({"shape": np.array(6)}, "shape must be a list"),
        ({"norm": np.array("round")}, "norm must be 'euclidean' or 'manhattan', got 'round'"),
        ({"shape": np.array([2, None])}, "Object arrays cannot be loaded"),
    ],
)
def test_wrong_content(change: Arrays, message: str, tmp_path: Path) -> None:
    path = tmp_path / "grid.npz"
    arrays = _arrays(Grid((2, 3)), path) | change
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(ValueError, match=f"grid.npz is not a saved ground metric: {message}"):
        GroundMetric.load(path)


@pytest.mark.parametrize(
    ("metric", "change", "message"),
    [
        (Graph([[0, 1], [1, 0]]), {"neighbours": np.array([1, 9])}, ""),
        (Graph([[0, 1], [1, 0]]), {"neighbours": np.array([1])}, ""),
        (Graph([[0, 1], [1, 0]]), {"indptr": np.array(2)}, "indptr must be a list"),
        (Ordinal(3), {"positions": np.array(10**12)}, "positions must be a list"),
        (Graph([[0, 1], [1, 0]]), {"lengths": np.array([1.0, np.nan])}, "adjacency must be finite"),
        (Tree([-1, 0, 0]), {"parents": np.array([-1, 2, 1])}, "parents must form a tree"),
        (Tree([-1, 0, 0]), {"parents": np.array([-1.0, 0.0, 0.0])}, "parents must hold integers"),
        (Tree([-1, 0, 0]), {"nodes": np.array([1, 7])}, "nodes must be in 0..2"),
        (Embedding([[1.0]]), {"vectors": np.ones(3)}, "vectors must have shape"),
        (Ordinal(3), {"positions": np.ones((3, 1))}, "positions must have shape"),
        (Subset(Ordinal(2), [0, 1], 3), {"metric": np.array(3)}, ""),
        (Discrete(3), {"size": np.array(2.5)}, "size must be an integer"),
    ],
)
def test_wrong_structure(
    metric: GroundMetric, change: Arrays, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "metric.npz"
    np.savez(path, **(_arrays(metric, path) | change))
    with pytest.raises(ValueError, match=f"metric.npz is not a saved ground metric: {message}"):
        GroundMetric.load(path)


def test_truncated_at_any_length(tmp_path: Path) -> None:
    path = tmp_path / "metric.npz"
    Ordinal(5).save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"metric.npz is not a saved ground metric"):
            GroundMetric.load(path)


def test_a_flipped_byte_never_passes_for_another_metric(tmp_path: Path) -> None:
    path = tmp_path / "metric.npz"
    metric = Ordinal([1.0, 2.0, 4.0])
    metric.save(path)
    whole = path.read_bytes()
    refused = 0
    for at in range(0, len(whole), 31):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            assert torch.equal(GroundMetric.load(path).cost(), metric.cost())
        except ValueError as error:
            assert "metric.npz" in str(error)  # noqa: PT017
            refused += 1
    assert refused > 0


def test_other_files(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    path.write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(ValueError, match=r"it is not a whole .npz archive"):
        GroundMetric.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("kind", "Ordinal")
    with pytest.raises(ValueError, match="its member 'kind' is not an array"):
        GroundMetric.load(path)
    with pytest.raises(FileNotFoundError):
        GroundMetric.load(tmp_path / "absent.npz")


def test_nothing_is_left_behind_when_saving_fails(tmp_path: Path) -> None:
    path = tmp_path / "metric.npz"
    Ordinal(3).save(path)
    Ordinal(4).save(str(path))
    assert GroundMetric.load(str(path)).size == 4
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        Ordinal(3).save(tmp_path / "folder")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "metric.npz"]


def test_labels_that_numpy_would_shorten_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="end in a NUL"):
        Ordinal(2, labels=["a\0", "b"]).save(tmp_path / "metric.npz")


def test_only_known_classes_are_saved(tmp_path: Path) -> None:
    class Mine(Ordinal):
        pass

    with pytest.raises(
        TypeError, match=r"only the metrics of wassloss.ground .* can be saved, got Mine"
    ):
        Mine(3).save(tmp_path / "metric.npz")


def test_learned_metrics_are_saved_by_value(tmp_path: Path) -> None:
    vectors = torch.randn(4, 2, requires_grad=True)
    distance = (1 - torch.eye(3)).requires_grad_()
    for metric in (Embedding(vectors), Matrix(distance)):
        metric.save(tmp_path / "metric.npz")
        loaded = GroundMetric.load(tmp_path / "metric.npz")
        assert not loaded.requires_grad
        torch.testing.assert_close(loaded.cost(), metric.cost().detach())
