"""Atomic writes; modes, links and devices; archives that claim too much."""

import io
import os
import stat
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

import wassloss as wl
from wassloss.files import unpack_npz, write_file, write_npz

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
def test_a_file_keeps_its_mode(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "metric.npz"
    path.touch()
    path.chmod(mode)
    wl.ground.Ordinal(3).save(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert wl.ground.GroundMetric.load(path).size == 3


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    write_file(tmp_path / "ours", b"1")
    (tmp_path / "theirs").write_bytes(b"1")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "theirs").stat().st_mode


def test_nobody_may_read_a_private_file_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "private", []
    path.touch(0o600)

    def watched(descriptor: int) -> None:
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))

    monkeypatch.setattr("os.fsync", watched)
    write_file(path, b"secret")
    assert seen[0] == 0o600


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_a_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.touch()
    os.chown(path, 12345, 23456)
    write_file(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


@posix
def test_a_symbolic_link_stays(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "target", tmp_path / "link"
    link.symlink_to("far/target")
    for content in (b"made", b"replaced"):  # also if it pointed to nothing
        write_file(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert names(tmp_path) == ["far", "link"]
    assert names(tmp_path / "far") == ["target"]


@posix
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    content = bytes(range(256)) * 1000  # more than a pipe holds
    write_file(pipe, content)
    reader.join(60)
    assert read == [content]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["pipe"]


@posix
def test_a_device_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        device.write_bytes(b"")
    except PermissionError:
        device = Path(os.devnull)
    monkeypatch.delattr("os.replace")  # so that a failure cannot harm the machine
    write_file(device, b"gone")
    assert stat.S_ISCHR(device.stat().st_mode)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_file(tmp_path / "folder", b"1")
    assert names(tmp_path) == ["folder"]


# --- archives within limits -----------------------------------------------------------------------


def packed(arrays: dict[str, np.ndarray], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", how) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array)
    return content.getvalue()


def test_a_small_archive_that_inflates_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metric.npz"
    path.write_bytes(packed({"distances": np.zeros((6000, 6000))}))
    assert path.stat().st_size < 2**19
    with pytest.raises(ValueError, match=r"metric\.npz .* at most 268435456 bytes uncompressed"):
        wl.ground.GroundMetric.load(path)
    write_npz(path, {"distances": np.zeros((6000, 6000))})  # no larger than it claims
    with pytest.raises(ValueError, match="it lacks kind"):
        wl.ground.GroundMetric.load(path)


def test_an_archive_of_too_many_members_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 64 members, got 1000"):
        unpack_npz(packed({str(i): np.zeros(1) for i in range(1000)}))


@pytest.mark.parametrize("how", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_damage_in_any_compression_is_one_error(how: int) -> None:
    content = bytearray(packed({"a": np.arange(1000.0)}, how))
    refused = 0
    for place in range(30, 200):
        damaged = content.copy()
        damaged[place] ^= 0xFF
        try:
            unpack_npz(bytes(damaged))
        except ValueError:
            refused += 1
    assert refused > 100


def test_metrics_inside_metrics_without_end_are_refused(tmp_path: Path) -> None:
    from wassloss.files import pack_npz
    from wassloss.ground.storage import to_arrays

    arrays = to_arrays(wl.ground.Subset(wl.ground.Ordinal(2), [0, 1], 3))
    for _ in range(500):
        content = np.frombuffer(pack_npz(arrays), np.uint8)
        arrays = arrays | {"metric": content, "indices": np.arange(3)}
    write_npz(tmp_path / "deep.npz", arrays)
    with pytest.raises(ValueError, match=r"deep\.npz is not a saved ground metric"):
        wl.ground.GroundMetric.load(tmp_path / "deep.npz")


def test_a_size_that_no_memory_holds_is_refused(tmp_path: Path) -> None:
    from wassloss.ground.storage import to_arrays

    arrays = to_arrays(wl.ground.Subset(wl.ground.Ordinal(2), [0, 1], 3))
    write_npz(tmp_path / "wide.npz", arrays | {"size": np.array(2**55)})
    with pytest.raises(ValueError, match=r"wide\.npz is not a saved ground metric"):
        wl.ground.GroundMetric.load(tmp_path / "wide.npz")
