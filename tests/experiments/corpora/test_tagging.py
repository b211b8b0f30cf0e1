"""The tag pipeline, compared with a plain implementation, and killed in the middle."""

import bz2
import io
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from urllib.parse import unquote_plus

import numpy as np
import pytest
import torch

from experiments.corpora.__main__ import write_data
from experiments.corpora.lookup import find
from experiments.corpora.tagging import TagSample, tag_ids, yfcc_tags
from experiments.corpora.tagging.metadata import MALFORMED, photos
from experiments.corpora.tagging.sampling import scramble
from experiments.corpora.tagging.streams import line_blocks
from experiments.corpora.tagging.tag_ids import TagIds
from experiments.corpora.tagging.vocabulary import candidates, most_frequent
from scripts.make_yfcc_metadata import metadata_lines, write_metadata
from tests.experiments.corpora import tag_pipeline
from tests.experiments.corpora.tag_pipeline import CATEGORIES, NET, TABLE, WORDS, small_run
from tests.places import needs
from wassloss.app.examples import ReadOptions, read_examples
from wassloss.app.tables import read_table

LINES = 6000


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("yfcc") / "metadata.tsv"
    write_metadata(path, LINES, WORDS)
    return path


@pytest.fixture(scope="module")
def whole(metadata: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[TagSample, bytes]:
    """A run without interruption, and the bytes that it wrote."""
    folder = tmp_path_factory.mktemp("whole")
    return small_run(metadata, folder), (folder / "tags.npz").read_bytes()


def photo_tags(metadata: Path) -> dict[int, set[str]]:
    """The tags of each photo, by a plain implementation."""
    found = {}
    for line in metadata.read_text(encoding="utf-8").splitlines():
        fields = line.split("\t")
        if len(fields) == 25 and fields[24] == "0" and fields[1].isdigit():
            tags = fields[10].split(",")
            found[int(fields[1])] = {unquote_plus(t).lower().replace(" ", "_") for t in tags}
    return found


def test_tags_are_the_most_frequent(metadata: Path, whole: tuple[TagSample, bytes]) -> None:
    counts = Counter(tag for tags in photo_tags(metadata).values() for tag in tags)
    dropped = ("noun.location", "noun.time")
    left = [
        (-counts[word], word)
        for i, word in enumerate(WORDS)
        if CATEGORIES[i % 5] not in dropped and i % 11 and word != "kaa" and counts[word]
    ]
    expected = [word for _, word in sorted(left)][:100]
    sample, _ = whole
    assert list(sample.label_names) == expected
    assert sample.label_photos.tolist() == [counts[word] for word in expected]
    assert sample.metric.labels == sample.label_names
    np.testing.assert_allclose(np.linalg.norm(sample.metric.vectors.numpy(), axis=1), 1, rtol=1e-5)


def test_photos_are_drawn_with_all_their_tags(
    metadata: Path, whole: tuple[TagSample, bytes]
) -> None:
    sample, _ = whole
    tags = photo_tags(metadata)
    names = set(sample.label_names)
    eligible = np.array([photo for photo, these in tags.items() if these & names])
    assert f"{len(eligible)} photos have one of them" in sample.report
    keys = scramble(eligible, 0)
    assert sample.photos.tolist() == eligible[np.argsort(keys)[:500]].tolist()
    start = 0
    for photo, count, url in zip(sample.photos, sample.tag_counts, sample.urls, strict=True):
        these = {sample.label_names[i] for i in sample.tags[start : start + count]}
        assert these == tags[photo] & names
        assert f"/{photo}_" in url
        start += count
    assert start == len(sample.tags)


def test_bad_lines_are_counted_by_kind(whole: tuple[TagSample, bytes]) -> None:
    report = whole[0].report
    # Six lines are malformed: truncated, identifier, marker, tag, truncated, identifier.
    assert "5 malformed" in report
    assert "2: neither 23 nor 25 columns" in report
    assert "2: identifier not a number" in report
    assert "1: marker neither photo nor video" in report
    assert "1 photos with a tag that is not UTF-8" in report
    assert report.startswith(f"{LINES} lines")


def test_every_line_is_accounted_for() -> None:
    lines = [line.encode() for line in metadata_lines(5000, WORDS)]
    lines += [b"", b"\xff\xfe\t" * 24, b"x" * (2 << 20)]
    report: Counter[str] = Counter()
    found = list(photos(lines, report))
    malformed = sum(report[kind] for kind in MALFORMED)
    assert report["lines"] == 5003 == report["photos"] + report["videos"] + malformed
    assert len(found) == report["photos"] - report["photos without tags"]
    assert report["line longer than 1 MiB"] == 1


@pytest.mark.parametrize("suffix", [".tsv", ".bz2", ".gz"])
@pytest.mark.parametrize("columns", [23, 25])
def test_editions_and_compression(
    tmp_path: Path, whole: tuple[TagSample, bytes], suffix: str, columns: int
) -> None:
    path = tmp_path / f"metadata{suffix}"
    write_metadata(path, LINES, WORDS, columns)
    small_run(path, tmp_path / "out")
    assert (tmp_path / "out" / "tags.npz").read_bytes() == whole[1]


def test_windows_lines(tmp_path: Path, metadata: Path, whole: tuple[TagSample, bytes]) -> None:
    path = tmp_path / "metadata.tsv"
    path.write_bytes(metadata.read_bytes().replace(b"\n", b"\r\n"))
    small_run(path, tmp_path / "out")
    assert (tmp_path / "out" / "tags.npz").read_bytes() == whole[1]


def test_the_order_of_photos_does_not_matter(
    tmp_path: Path, metadata: Path, whole: tuple[TagSample, bytes]
) -> None:
    lines = metadata.read_bytes().splitlines(keepends=True)
    parts = [tmp_path / "a.tsv", tmp_path / "b.bz2"]
    parts[0].write_bytes(b"".join(reversed(lines[2000:])))
    parts[1].write_bytes(bz2.compress(b"".join(lines[:2000])))
    sample = small_run(list(parts), tmp_path / "out", block_bytes=7000)
    assert (tmp_path / "out" / "tags.npz").read_bytes() == whole[1]
    assert len(sample) == 500


def test_of_a_photo_that_comes_twice_the_first_is_taken(tmp_path: Path, metadata: Path) -> None:
    lines = metadata.read_bytes().splitlines(keepends=True)
    again = [line.replace(b".jpg", b"_2.jpg") for line in lines]
    path = tmp_path / "metadata.tsv"
    path.write_bytes(b"".join(lines + again))
    sample = small_run(path, tmp_path / "out")
    assert len(set(sample.photos.tolist())) == 500
    assert not any(url.endswith("_2.jpg") for url in sample.urls)


def test_the_seed_draws_other_photos(tmp_path: Path, metadata: Path) -> None:
    drawn = [set(small_run(metadata, tmp_path / str(s), seed=s).photos.tolist()) for s in (0, 1)]
    assert drawn[0] != drawn[1]


def test_scramble_is_uniform_and_one_to_one() -> None:
    keys = scramble(np.arange(100_000), seed=3)
    assert len(set(keys.tolist())) == 100_000
    counts = np.bincount((keys >> np.uint64(60)).astype(np.int64), minlength=16)
    assert abs(counts - 6250).max() < 5 * 6250**0.5


def running(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> list[int]:
    own = [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return own + [one for child in own for one in descendants(child)]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux: /proc")
@pytest.mark.parametrize("state", ["counts.npz", "sample.npz"])
def test_killed_and_resumed(
    tmp_path: Path, metadata: Path, whole: tuple[TagSample, bytes], state: str
) -> None:
    out = tmp_path / "out"
    script = Path(tag_pipeline.__file__)
    two = "2" if state == "sample.npz" else "1"
    command = [sys.executable, str(script), str(metadata), str(out), two]
    checkout = {**os.environ, "PYTHONPATH": str(script.parents[3])}
    process = subprocess.Popen(command, env=checkout)
    deadline = time.monotonic() + 100
    while not (out / state).exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGSTOP)  # suspend it while looking for the workers
    workers = descendants(process.pid)
    assert bool(workers) == (two == "2")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (out / "tags.npz").exists()
    with np.load(out / state) as saved:
        assert not saved["whole"]
        assert len(saved["done"]) > 0
    # Workers do not outlive their parent.
    while any(map(running, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(running, workers))
    small_run(metadata, out)
    assert (out / "tags.npz").read_bytes() == whole[1]


def test_what_was_read_is_not_read_again(
    tmp_path: Path, metadata: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is interrupted after some blocks; the next one reads only the others."""
    from experiments.corpora.tagging.counting import CountWords

    calls = 0
    real = CountWords.read

    def count(self: CountWords, *arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 50:
            raise KeyboardInterrupt
        return real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(CountWords, "read", count)
    with pytest.raises(KeyboardInterrupt):
        small_run(metadata, tmp_path, save_seconds=0.0)
    small_run(metadata, tmp_path)
    blocks = -(-metadata.stat().st_size // 20_000)
    assert blocks <= calls - 1 <= blocks + 1
    small_run(metadata, tmp_path)
    assert calls - 1 <= blocks + 1  # a finished pass is not started again


def test_another_run_in_the_folder(tmp_path: Path, metadata: Path) -> None:
    small_run(metadata, tmp_path)
    with pytest.raises(ValueError, match=r"sample.npz is the state of another run, whose seed"):
        small_run(metadata, tmp_path, seed=5)
    with pytest.raises(ValueError, match="whose photos, tags differ"):
        small_run(metadata, tmp_path, tags=50, train=100)
    counts = (tmp_path / "counts.npz").stat().st_mtime_ns
    assert len(small_run(metadata, tmp_path, tags=50, restart=True).label_names) == 50
    assert (tmp_path / "counts.npz").stat().st_mtime_ns == counts  # reused
    (tmp_path / "counts.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"counts.npz is not the state of a pass"):
        small_run(metadata, tmp_path)


def test_progress(tmp_path: Path, metadata: Path) -> None:
    seen: list[tuple[int, int]] = []
    small_run(metadata, tmp_path, progress=lambda done, total: seen.append((done, total)))
    done = [one for one, _ in seen]
    assert done == sorted(done)
    assert seen[-1] == (2 * metadata.stat().st_size,) * 2


def test_bad_input(tmp_path: Path, metadata: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"metadata must be files, got .*absent"):
        small_run(tmp_path / "absent", tmp_path)
    with pytest.raises(FileNotFoundError, match="got none"):
        small_run([], tmp_path)
    with pytest.raises(ValueError, match="train must be a positive integer, got 0"):
        small_run(metadata, tmp_path, train=0)
    with pytest.raises(ValueError, match="missing must be"):
        small_run(metadata, tmp_path, missing="skip")
    cut = tmp_path / "cut.bz2"
    cut.write_bytes(bz2.compress(metadata.read_bytes())[:-1000])
    with pytest.raises(ValueError, match=r"cut.bz2 is damaged or cut short"):
        small_run(cut, tmp_path / "cut")
    with pytest.raises(ValueError, match="words must all have a vector, but"):
        small_run(metadata, tmp_path / "a", missing="error")
    with pytest.raises(ValueError, match="size must be at most"):
        small_run(metadata, tmp_path / "b", tags=5000)
    with pytest.raises(ValueError, match=r"train and test must ask for at most \d+ photos"):
        small_run(metadata, tmp_path / "c", train=50_000)


def test_memory_of_tags_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tag_ids, "_MOST", 10)
    ids = TagIds({word: i for i, word in enumerate(WORDS)}, None)
    for i in range(200):
        assert ids.of(f"{WORDS[i]},x{i},{WORDS[i].upper()},%FF".encode()) == {i, -1, -2}
        assert len(ids) <= 10


def test_a_line_without_end_is_cut() -> None:
    blocks = list(line_blocks(io.BytesIO(b"a\n" + b"x" * 1000 + b"\nb\n"), size=100))
    assert max(map(len, blocks)) <= 300
    lines = b"".join(blocks).split(b"\n")
    assert (lines[0], set(lines[1]), lines[2]) == (b"a", {ord("x")}, b"b")


def test_vocabulary() -> None:
    counts = {word: 10 for word in WORDS[:5]}
    found = candidates(counts, NET, stop_words={"kab"}, keep={"kad"})
    assert found.tags == ("kaa", "kad", "kae")  # kac is noun.location, kad noun.time but kept
    assert found.dropped == {"noun.location": 1, "noun.time": 0, "stop list": 1, "number": 0}
    fewer = most_frequent(found, 2, without_vector=TABLE.missing(found.tags))
    assert fewer.tags == ("kad", "kae")
    assert fewer.dropped["no vector, frequent enough otherwise"] == 1


def test_data_set(tmp_path: Path, whole: tuple[TagSample, bytes]) -> None:
    sample, _ = whole
    features = np.random.default_rng(0).normal(size=(500, 6))
    data = sample.with_features(features)
    assert (len(data.part("train")), len(data.part("test"))) == (300, 200)
    write_data(data, tmp_path / "data.parquet")
    table = read_table(tmp_path / "data.parquet")
    back = read_examples(table, ReadOptions(order=sample.label_names))
    assert (data.y != back.y).nnz == 0
    assert back.parts["test"].tolist() == list(range(300, 500))
    # Photos that no longer exist, by number.
    rows = {int(p): row for p, row in zip(sample.photos, features, strict=True)}
    gone = int(sample.photos[0])
    del rows[gone]
    fewer = sample.with_features(rows)
    assert (len(fewer.part("train")), len(fewer.part("test"))) == (299, 200)
    torch.testing.assert_close(fewer.features, data.features[1:])
    assert "1 photos without features are left out" in fewer.provenance
    with pytest.raises(ValueError, match=r"features must have shape \(500, features\)"):
        sample.with_features(features[1:])
    with pytest.raises(ValueError, match="got none of them"):
        sample.with_features({1: features[0]})


def test_sample_file(tmp_path: Path, whole: tuple[TagSample, bytes]) -> None:
    (tmp_path / "tags.npz").write_bytes(whole[1])
    back = TagSample.load(tmp_path / "tags.npz")
    assert repr(back) == "TagSample(300 train and 200 test photos, 100 tags)"
    assert back.urls == whole[0].urls
    torch.testing.assert_close(back.metric.vectors, whole[0].metric.vectors)
    np.savez(tmp_path / "other.npz", x=np.zeros(1))
    with pytest.raises(ValueError, match=r"other.npz is not a sample of tags"):
        TagSample.load(tmp_path / "other.npz")


@needs("wordnet/index.noun.gz")
@needs("glove/glove_100d.npy")
def test_real_wordnet_and_vectors(tmp_path: Path) -> None:
    listed = ["dogs", "dog", "summer", "paris", "beach", "flower", "new_york", "flickr", "photo"]
    write_metadata(tmp_path / "metadata.tsv", 3000, listed)
    glove = find("glove", "glove_100d.npy")
    options = {"train": 50, "test": 50, "workers": 1}
    sample = yfcc_tags(tmp_path / "metadata.tsv", glove, tmp_path / "a", tags=3, **options)
    assert set(sample.label_names) == {"dog", "beach", "flower"}
    assert "noun.location" in sample.report
    more = yfcc_tags(
        tmp_path / "metadata.tsv",
        glove,
        tmp_path / "b",
        tags=4,
        keep=["summer"],
        merge_plurals=True,
        **options,
    )
    assert set(more.label_names) == {"dog", "summer", "beach", "flower"}
    merged = dict(zip(more.label_names, more.label_photos, strict=True))
    plain = dict(zip(sample.label_names, sample.label_photos, strict=True))
    assert merged["dog"] > plain["dog"]
