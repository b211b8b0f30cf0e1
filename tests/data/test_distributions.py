"""Label distributions in MATLAB files."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

from wassloss.data import read_distributions


def test_label_distributions(tmp_path: Path) -> None:
    path = tmp_path / "movie.mat"
    labels = np.array([[0.25, 0.75], [1.0, 0.0]])
    savemat(path, {"features": np.arange(6.0).reshape(2, 3), "labels": labels})
    data = read_distributions(path, label_names=["bad", "good"])
    assert data.features.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert torch.equal(data.target, torch.tensor(labels, dtype=torch.float32))  # type: ignore[arg-type]
    assert data.name == "movie"


def test_bad_label_distributions(tmp_path: Path) -> None:
    path = tmp_path / "movie.mat"
    good = {"features": np.ones((2, 3)), "labels": np.full((2, 2), 0.5)}
    for change, message in (
        ({"labels": np.ones((2, 2))}, "rows of 'labels' must sum to 1, got 2 in row 0"),
        ({"labels": np.full((3, 2), 0.5)}, "weights of shape"),
        ({"features": np.full((2, 3), np.nan)}, "features must be finite"),
        ({"features": "text"}, "'features' must be a dense matrix of numbers"),
    ):
        savemat(path, good | change)
        with pytest.raises(ValueError, match=f"movie.mat.*{message}"):
            read_distributions(path)
    savemat(path, {"features": good["features"]})
    with pytest.raises(ValueError, match=r"movie\.mat lacks the variable 'labels'"):
        read_distributions(path)
    savemat(path, good)
    whole = path.read_bytes()
    for length in (0, 50, 128, 140, len(whole) - 9):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"movie.mat"):
            read_distributions(path)
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    with pytest.raises(ValueError, match=r"MATLAB 7.3 file: save it with -v7"):
        read_distributions(path)
    with pytest.raises(FileNotFoundError):
        read_distributions(tmp_path / "none.mat")
