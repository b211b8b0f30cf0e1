"""Every file format: truncated anywhere, any byte changed, with pickles inside.

A damaged file is refused with one documented error. In a text format without a checksum, a change
may be read as other data, but only as valid data.
"""

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import wassloss as wl
from wassloss.app.examples import read_examples
from wassloss.app.tables import read_table

EXECUTED: list[str] = []


class Bomb:
    """Creates a file when unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return EXECUTED.append, ("a pickle ran",)


X, Y = torch.rand(6, 3, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3


def metric_file(folder: Path) -> tuple[Path, Callable[[Path], object]]:
    wl.ground.Ordinal([0.0, 1.0, 3.0], labels=["a", "b", "c"]).save(folder / "metric.npz")
    return folder / "metric.npz", wl.ground.GroundMetric.load


def table_file(suffix: str) -> Callable[[Path], tuple[Path, Callable[[Path], object]]]:
    def make(folder: Path) -> tuple[Path, Callable[[Path], object]]:
        pandas = pytest.importorskip("pandas")
        if suffix == ".parquet":
            pytest.importorskip("pyarrow")
        path = folder / f"data{suffix}"
        frame = pandas.DataFrame(X.numpy(), columns=list("abc")).assign(label=Y.numpy())
        frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
        return path, lambda place: read_examples(read_table(place))

    return make


def estimator_file(folder: Path) -> tuple[Path, Callable[[Path], object]]:
    pytest.importorskip("safetensors")
    wl.WassersteinClassifier("ordinal", tol=0.1).fit(X.numpy(), Y.numpy()).save(
        folder / "model.safetensors"
    )
    return folder / "model.safetensors", wl.WassersteinClassifier.load


MAKERS = {
    "ground metric": metric_file,
    "data .parquet": table_file(".parquet"),
    "data .csv": table_file(".csv"),
    "estimator": estimator_file,
}
TEXT = {"data .csv"}  # without a length or a checksum
each_format = pytest.mark.parametrize("kind", MAKERS)


def attempt(load: Callable[[Path], object], path: Path) -> bool:
    """Whether a file is read; if not, the ValueError must be one line that names the file."""
    try:
        load(path)
    except ValueError as error:
        assert path.name in str(error) or path.parent.name in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
        return False
    return True


@pytest.mark.filterwarnings("ignore:.*rows have no label")
@each_format
def test_cut_anywhere(kind: str, tmp_path: Path) -> None:
    path, load = MAKERS[kind](tmp_path)
    whole = path.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:length])
        assert not attempt(load, path) or kind in TEXT


@pytest.mark.filterwarnings("ignore:.*rows have no label")
@each_format
def test_a_byte_changed_anywhere(kind: str, tmp_path: Path) -> None:
    path, load = MAKERS[kind](tmp_path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for at in range(0, len(whole), max(1, len(whole) // 100)):
        changed = bytearray(whole)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        refused += not attempt(load, path)
    assert refused
    path.write_bytes(whole)
    assert attempt(load, path)


@each_format
def test_noise_and_a_pickle_are_refused(kind: str, tmp_path: Path) -> None:
    path, load = MAKERS[kind](tmp_path)
    for content in (np.random.default_rng(0).bytes(500), pickle.dumps(Bomb()), b"\x00" * 500):
        path.write_bytes(content)
        assert not attempt(load, path)
    torch.save({"weights": Bomb()}, path)
    assert not attempt(load, path)
    assert not EXECUTED


def test_pickles_inside_archives_are_refused(tmp_path: Path) -> None:
    """They replace each array, or are added: NumPy's own format can contain them."""
    path, load = metric_file(tmp_path)
    with np.load(path) as archive:
        arrays = dict(archive)
    bomb = np.array([Bomb()], dtype=object)
    for name in (*arrays, "extra"):
        with open(path, "wb") as file:
            np.savez(file, allow_pickle=True, **(arrays | {name: bomb}))
        assert not attempt(load, path)
    assert not EXECUTED


def test_a_pickle_in_an_estimators_metric_is_refused(tmp_path: Path) -> None:
    """The metric is an archive inside the file; the checksum is made to fit."""
    from wassloss.files import pack_tensors, unpack_tensors

    path, load = estimator_file(tmp_path)
    tensors, state = unpack_tensors(path.read_bytes())
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=True, kind=np.array([Bomb()], dtype=object))
    tensors["metric"] = torch.frombuffer(bytearray(packed.getvalue()), dtype=torch.uint8)
    path.write_bytes(pack_tensors(tensors, state))
    assert not attempt(load, path)
    assert not EXECUTED


@pytest.mark.parametrize(
    "header", [b"(30000000000000,), }", b"(3,),               ", b"(-3,), } @ (3,      "]
)
def test_headers_of_arrays_that_lie_are_refused(header: bytes, tmp_path: Path) -> None:
    """They claim more than fits in memory, or are not Python; the archive's checksums match."""
    path, load = metric_file(tmp_path)
    with np.load(path) as archive:
        arrays = dict(archive)
    honest = b"(3,), }" + b" " * 13
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, array)
            raw = content.getvalue()
            assert name != "positions" or honest in raw
            archive.writestr(f"{name}.npy", raw.replace(honest, header))
    assert not attempt(load, path)
