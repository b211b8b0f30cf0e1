"""Run by test_streaming.py in a process of its own, whose memory it limits.

    python memory_limit.py stream|read|train PATH LIMIT_MB

`stream` prints the peak memory, in MB, after a quarter of the epoch and at its end; `train` the
peak after an epoch of training, and how many steps that was.
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
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(7), kl_weight=0.1, own_units=True)
    if how == "train":  # loads all that training needs: code is not what is limited here
        data = torch.zeros(4, 512), torch.zeros(4, dtype=torch.long)
        first = wl.models.LinearSoftmax(features=512, labels=7)
        wl.train(first, loss_fn, data, wl.TrainingPlan(steps=1), progress=False)
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
    if how == "train":
        model = wl.models.LinearSoftmax(features=512, labels=7)
        plan = wl.TrainingPlan(steps=len(stream), learning_rate=1e-7)
        result = wl.train(model, loss_fn, stream, plan, progress=False)
        sys.stdout.write(f"{(memory('VmHWM:') - start) / 2**20} {result.steps}\n")
        return
    total = 0.0
    for i, (features, _) in enumerate(stream):
        total += float(features[:, 0].double().sum())
        if i == len(stream) // 4:
            early = memory("VmHWM:")
    end = memory("VmHWM:")
    sys.stdout.write(f"{(early - start) / 2**20} {(end - start) / 2**20} {total}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
