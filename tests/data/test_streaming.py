"""Every row once, by one process, in a known order, in little memory."""

import dataclasses
import json
import os
import subprocess
import sys
import threading
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wassloss import SparseTarget
from wassloss.data import Dataset, ParquetStream, write
from wassloss.data._stream_files import batch_bounds, pieces

pytest.importorskip("pyarrow")


def numbered(n: int, first: int = 0, labels: int = 7) -> Dataset:
    """Row i has the features (i, -i) and the class i mod 7, so that rows are known again."""
    i = torch.arange(first, first + n)
    return Dataset(torch.stack([i, -i], 1).float(), i % labels, label_count=labels)


def in_row_groups(data: Dataset, path: Path, rows: int) -> None:
    """A Parquet file with so many rows in each row group."""
    import pyarrow.parquet as pq

    write(data, path)
    pq.write_table(pq.read_table(path), path, row_group_size=rows)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """103 rows in two files of several row groups, one of them short."""
    whole = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    in_row_groups(numbered(70), whole[0], 16)
    in_row_groups(numbered(33, first=70), whole[1], 10)
    return whole


def rows_of(stream: ParquetStream) -> list[list[int]]:
    """The rows of each batch of one epoch, their labels checked."""
    batches = []
    for features, target in stream:
        assert isinstance(target, torch.Tensor)
        assert torch.equal(features[:, 0], -features[:, 1])
        assert torch.equal(features[:, 0].long() % 7, target)
        batches.append(features[:, 0].long().tolist())
    return batches


@given(rows=st.integers(1, 60), batch_size=st.integers(1, 9), world_size=st.integers(1, 5))
def test_processes_share_the_rows(rows: int, batch_size: int, world_size: int) -> None:
    try:
        own = [batch_bounds(rows, batch_size, r, world_size) for r in range(world_size)]
    except ValueError:
        assert rows < world_size or (batch_size == 1 and rows % world_size)
        return
    assert len({len(bounds) for bounds in own}) == 1
    seen: list[int] = []
    for bounds in own:
        sizes = np.diff(bounds)
        assert sizes.min() >= 1
        assert sizes.max() <= batch_size
        assert len(sizes) == 1 or (sizes[:-2] == batch_size).all()
        seen += range(bounds[0], bounds[-1])
    assert seen == list(range(rows))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=8), st.data())
def test_pieces_cover_a_range_of_rows(sizes: list[int], data: st.DataObject) -> None:
    total = sum(sizes)
    first = data.draw(st.integers(0, total))
    end = data.draw(st.integers(first, total))
    groups = [(0, g, n) for g, n in enumerate(sizes)]
    found = pieces(groups, list(accumulate(sizes)), first, end)
    starts = np.cumsum([0, *sizes])
    rows = [starts[p.group] + i for p in found for i in range(p.start, p.stop)]
    assert rows == list(range(first, end))


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_epoch_is_every_row_once(
    paths: list[Path], world_size: int, shuffle: bool, prefetch: int
) -> None:
    seen: list[int] = []
    lengths = set()
    for rank in range(world_size):
        stream = ParquetStream(
            paths,
            8,
            buffer_rows=24,
            shuffle=shuffle,
            rank=rank,
            world_size=world_size,
            prefetch=prefetch,
        )
        batches = rows_of(stream)
        lengths.add(len(batches))
        assert len(batches) == len(stream)
        assert all(1 <= len(batch) <= 8 for batch in batches)
        seen += [row for batch in batches for row in batch]
    assert len(lengths) == 1
    assert (seen == list(range(103))) is not shuffle
    assert sorted(seen) == list(range(103))


def test_order_depends_on_seed_and_epoch_alone(paths: list[Path]) -> None:
    stream = ParquetStream(paths, 8, buffer_rows=40, seed=3)
    first, second = rows_of(stream), rows_of(stream)
    assert first != second
    assert stream.state_dict()["epoch"] == 2
    assert rows_of(ParquetStream(paths, 8, buffer_rows=40, seed=3)) == first
    assert rows_of(ParquetStream(paths, 8, buffer_rows=40, seed=4)) != first


def test_shuffling_reaches_across_row_groups_and_files(paths: list[Path]) -> None:
    batches = rows_of(ParquetStream(paths, 10, buffer_rows=1000))
    assert any(min(batch) < 70 <= max(batch) for batch in batches)


@pytest.mark.parametrize("stop", [1, 3, 4, 12, 13, 20])
@pytest.mark.parametrize("prefetch", [0, 3])
def test_resumes_at_the_exact_batch(paths: list[Path], stop: int, prefetch: int) -> None:
    def stream() -> ParquetStream:
        return ParquetStream(paths, 8, buffer_rows=30, seed=1, prefetch=prefetch)

    undisturbed = stream()
    expected = rows_of(undisturbed) + rows_of(undisturbed)
    broken = stream()
    count, state = 0, {}
    while not state:
        for _ in broken:
            count += 1
            if count == stop:
                state = json.loads(json.dumps(broken.state_dict()))  # as a checkpoint holds it
                break
    resumed = stream()
    resumed.load_state_dict(state)
    rest = rows_of(resumed)
    while stop + len(rest) < len(expected):
        rest += rows_of(resumed)
    assert rest[: len(expected) - stop] == expected[stop:]
    # The stream that was left early goes on as well.
    assert rows_of(broken) == expected[stop : stop + len(broken) - stop % len(broken)]


def test_a_state_of_another_order_is_refused(paths: list[Path]) -> None:
    state = ParquetStream(paths, 8).state_dict()
    with pytest.raises(ValueError, match="same batch_size: it had 8, this one has 9"):
        ParquetStream(paths, 9).load_state_dict(state)
    with pytest.raises(ValueError, match="same rows"):
        ParquetStream(paths[:1], 8).load_state_dict(state)
    with pytest.raises(ValueError, match=r"batch in 0\.\.12, got 99"):
        ParquetStream(paths, 8).load_state_dict(state | {"batch": 99})


def test_no_thread_outlives_its_loop(paths: list[Path]) -> None:
    before = threading.active_count()
    stream = ParquetStream(paths, 8)
    for _ in stream:
        break
    assert threading.active_count() == before
    rows_of(stream)
    assert threading.active_count() == before


def test_a_part_is_read_and_no_other(tmp_path: Path) -> None:
    rows = torch.arange(103)
    parts = {"train": rows[rows % 3 != 0], "test": rows[rows % 3 == 0][:-2]}
    path = tmp_path / "parts.parquet"
    in_row_groups(dataclasses.replace(numbered(103), parts=parts), path, 10)
    with pytest.raises(ValueError, match=r"has a column 'part': say which part to read"):
        ParquetStream(path, 8)
    for name, own in parts.items():
        seen: list[int] = []
        for rank in range(2):
            stream = ParquetStream(
                path, 8, part=name, buffer_rows=24, rank=rank, world_size=2, shuffle=False
            )
            seen += [row for batch in rows_of(stream) for row in batch]
        assert seen == own.tolist()
    with pytest.raises(ValueError, match="part must be one that the files have, got 'dev'"):
        ParquetStream(path, 8, part="dev")


def test_a_folder_stands_for_its_files(tmp_path: Path, paths: list[Path]) -> None:
    assert rows_of(ParquetStream(tmp_path, 8)) == rows_of(ParquetStream(paths, 8))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"paths must name Parquet files, but .*empty has none"):
        ParquetStream(tmp_path / "empty", 8)
    with pytest.raises(ValueError, match="no column 'part' to find 'train' in"):
        ParquetStream(paths, 8, part="train")


def test_sparse_and_dense_targets(tmp_path: Path) -> None:
    n = 50
    sparse = SparseTarget(torch.randint(0, 3, (n, 1)), torch.ones(n, 1))
    two = torch.cat([sparse.indices, sparse.indices + 3], 1)
    features = torch.cat([sparse.indices, torch.rand(n, 2)], 1)
    path = tmp_path / "tags.parquet"
    data = Dataset(features, SparseTarget(two, torch.full((n, 2), 0.5)), label_count=6)
    in_row_groups(data, path, 7)
    for x, target in ParquetStream(path, 9, buffer_rows=20):
        assert isinstance(target, SparseTarget)
        assert torch.equal(x[:, 0].long(), target.indices[:, 0])
        assert torch.equal(target.indices[:, 0] + 3, target.indices[:, 1])
    dense = torch.rand(n, 4)
    in_row_groups(Dataset(dense.clone(), dense), path, 7)
    for x, target in ParquetStream(path, 9):
        assert isinstance(target, torch.Tensor)
        assert torch.equal(x, target)


def test_row_groups_of_unequal_support_are_padded(tmp_path: Path) -> None:
    weights = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    data = Dataset(torch.rand(2, 1), SparseTarget(torch.tensor([[1, 0], [0, 2]]), weights))
    in_row_groups(data, tmp_path / "a.parquet", 1)
    [(_, target)] = ParquetStream(tmp_path / "a.parquet", 2, shuffle=False)
    assert isinstance(target, SparseTarget)
    assert torch.equal(target.weights, weights)


def test_names_need_a_list_of_them(tmp_path: Path) -> None:
    import pyarrow as pa

    path = tmp_path / "named.parquet"
    table = pa.table({"x0": [1.0, 2.0], "x1": [0.0, 1.0], "label": ["dog", "cat"]})
    pa.parquet.write_table(table, path)
    with pytest.raises(ValueError, match=r"named.parquet .* holds names.*: pass label_names"):
        ParquetStream(path, 2)
    [(x, target)] = ParquetStream(path, 2, label_names=("cat", "dog"), shuffle=False)
    assert torch.equal(x, torch.tensor([[1.0, 0.0], [2.0, 1.0]], dtype=x.dtype))
    assert isinstance(target, torch.Tensor)
    assert target.tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"row group 0: row 0: 'dog' is none of the 2 labels"):
        list(ParquetStream(path, 2, label_names=("cat", "cow")))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"rank": 2, "world_size": 2}, r"rank must be in 0\.\.1, got 2"),
        ({"prefetch": -1}, "prefetch must be at least 0"),
        ({"buffer_rows": 0}, "buffer_rows must be at least 1"),
        ({"world_size": 200}, "world_size must be at most the 103 rows, got 200"),
        ({"label_names": ("a", "b")}, r"label_names must name the \d+ labels that the file counts"),
    ],
)
def test_bad_arguments(paths: list[Path], keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ParquetStream(paths, 4, **keywords)


def test_bad_files(tmp_path: Path, paths: list[Path]) -> None:
    import pyarrow as pa

    with pytest.raises(ValueError, match="paths must name at least one"):
        ParquetStream([], 4)
    with pytest.raises(FileNotFoundError):
        ParquetStream(tmp_path / "none.parquet", 4)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(paths[0].read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"cut.parquet cannot be read as data: .*"):
        ParquetStream(cut, 4)
    other = tmp_path / "other.parquet"
    pa.parquet.write_table(pa.table({"x0": [1.0], "label": [1]}), other)
    with pytest.raises(ValueError, match=r"other.parquet must have the feature columns of"):
        ParquetStream([paths[0], other], 4)
    with pytest.raises(ValueError, match="does not say how many labels"):
        ParquetStream(other, 4)
    pa.parquet.write_table(pa.table({"x0": [1.0, float("nan")], "label": [1, 0]}), other)
    stream = ParquetStream(other, 4, label_count=2)
    with pytest.raises(
        ValueError, match=r"r.parquet, row group 0: row 1, column 'x0': expected a number, got nan"
    ):
        list(stream)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")
def test_a_set_larger_than_the_memory_allowed(tmp_path: Path) -> None:
    import pyarrow as pa

    # 500 MB of features, of few kinds, so that the file is small and quick to write.
    path, n, width, groups = tmp_path / "large.parquet", 1000, 512, 256
    i = torch.arange(n)
    block = Dataset(i[:, None].expand(n, width).float(), i % 7)
    write(block, path)
    table = pa.parquet.read_table(path)
    with pa.parquet.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(groups):
            writer.write_table(table)
    limit = 200  # MB beyond what torch and pyarrow take; pyarrow reserves more than it uses

    def run(how: str) -> subprocess.CompletedProcess[str]:
        script = Path(__file__).with_name("memory_limit.py")
        return subprocess.run(
            [sys.executable, script, how, path, str(limit)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            # Allocators that reserve ahead for each thread would be charged for what they reserve.
            env=os.environ | {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"},
        )

    streamed = run("stream")
    assert streamed.returncode == 0, streamed.stderr
    early, end, total = map(float, streamed.stdout.split())
    assert total == groups * n * (n - 1) / 2
    assert end <= limit
    assert end - early < 10  # flat
    trained = run("train")
    assert trained.returncode == 0, trained.stderr
    peak, steps = map(float, trained.stdout.split())
    assert steps == groups * n / 100
    assert peak <= limit
    whole = run("read")  # the limit is one that a whole data set does not keep to
    assert whole.returncode == 1
    assert "MemoryError" in whole.stderr
