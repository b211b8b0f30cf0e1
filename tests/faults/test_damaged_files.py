"""Every format that is read: cut short anywhere, any byte changed, pickles put in.

A damaged file is refused by one documented error. A change that no checksum covers (a text format
has none) may be read as other data, but as data that passed every check; nothing else comes out.
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
from wassloss.training import TrainingPlan, load_checkpoint, read_log, train

EXECUTED: list[str] = []


class Bomb:
    """Unpickled, it leaves a trace."""

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


def checkpoint_file(folder: Path) -> tuple[Path, Callable[[Path], object]]:
    pytest.importorskip("safetensors")
    plan = TrainingPlan(steps=2, batch_size=3, learning_rate=0.1, checkpoint_every=2)
    model = wl.models.Linear(3, 3)
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(3), kl_weight=0.0, normalize_cost=False)
    train(model, loss_fn, (X, Y), plan, directory=folder)
    (checkpoint,) = folder.glob("checkpoint-*")
    return checkpoint, load_checkpoint


MAKERS = {
    "ground metric": metric_file,
    "data .parquet": table_file(".parquet"),
    "data .csv": table_file(".csv"),
    "estimator": estimator_file,
    "checkpoint": checkpoint_file,
}
TEXT = {"data .csv"}  # without a length or a checksum
each_format = pytest.mark.parametrize("kind", MAKERS)


def attempt(load: Callable[[Path], object], path: Path) -> bool:
    """Whether a file is read; if not, by a ValueError of one line that names it."""
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
    """In place of each array, and as one more: NumPy's own format can hold them."""
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
    """They claim more than memory holds, or are no Python; the archive's checksums fit."""
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


def test_a_damaged_log_says_so(tmp_path: Path) -> None:
    checkpoint_file(tmp_path)
    (log,) = [path for path in tmp_path.iterdir() if path.is_file() and "log" in path.name]
    whole = log.read_bytes()
    for content in (b"\xff\xfe\x00", b"[1, 2]\n" + whole, b'{"step": {}}\n', whole[:-5]):
        log.write_bytes(content)
        try:
            read_log(tmp_path)
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017
