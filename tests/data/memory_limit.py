"""Run by test_streaming.py in a process of its own, whose memory it limits.

    python memory_limit.py stream|read PATH LIMIT_MB

Prints the peak memory, in MB, after a quarter of the epoch and at its end.
"""

import resource
import sys
from pathlib import Path

import pyarrow.parquet  # noqa: F401 - before the limit, as torch
import torch

import wassloss as wl

torch.set_num_threads(1)


def memory(field: str) -> int:
    """VmData: what the limit counts; VmHWM: the peak of what is resident. In bytes."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if field in line)


def main(how: str, path: str, limit: str) -> None:
    used = memory("VmData:")
    most = used + int(limit) * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    if how == "read":
        try:
            wl.data.read(path)
        except MemoryError as error:
            sys.exit(f"MemoryError: {error}")
        return
    stream = wl.data.ParquetStream(path, batch_size=100, buffer_rows=4000)
    start, early = memory("VmHWM:"), 0
    total = 0.0
    for i, (features, _) in enumerate(stream):
        total += float(features[:, 0].double().sum())
        if i == len(stream) // 4:
            early = memory("VmHWM:")
    end = memory("VmHWM:")
    sys.stdout.write(f"{(early - start) / 2**20} {(end - start) / 2**20} {total}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
