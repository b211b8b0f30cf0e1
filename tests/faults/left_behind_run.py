"""The processes of `torchrun` in test_lost_worker.py: does a key of the first attempt remain?"""

import os
import sys
from pathlib import Path

from torch.distributed.rendezvous import rendezvous


def main(directory: str) -> None:
    store, _, _ = next(rendezvous("env://"))  # as init_process_group does
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        store.set("address", "of a process that is about to die")
        raise SystemExit(1)
    left = store.check(["address"])
    Path(directory, "answer").write_text("left behind" if left else "gone")


if __name__ == "__main__":
    main(sys.argv[1])
