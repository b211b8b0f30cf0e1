"""What surrounds the steps of a run: devices and processes, Ctrl-C, solves that do not converge."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from wassloss.transport import ConvergenceWarning

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def default_fabric(model: nn.Module) -> Fabric:
    """On the model's kind of device, in the processes that `torchrun` started, if any."""
    try:
        from lightning_fabric import Fabric
    except ImportError as error:
        message = 'training needs Lightning Fabric: pip install "wassloss[train]"'
        raise ImportError(message) from error
    tensors = [*model.parameters(), *model.buffers()]
    device = tensors[0].device if tensors else torch.device("cpu")
    accelerator = device.type if device.type in ("cpu", "cuda", "mps") else "auto"
    if not torch.distributed.is_available() or not torch.distributed.is_torchelastic_launched():
        index = [device.index] if device.type == "cuda" and device.index is not None else 1
        return Fabric(accelerator=accelerator, devices=index)
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    nodes = int(os.environ["WORLD_SIZE"]) // local
    fabric = Fabric(accelerator=accelerator, devices=local, num_nodes=nodes, strategy="ddp")
    fabric.launch()
    # Fabric closes NCCL's groups at exit, but gloo's have threads too, which now and then abort a
    # process that ends before them.
    group = torch.distributed
    atexit.register(lambda: group.destroy_process_group() if group.is_initialized() else None)
    return fabric


@contextmanager
def waiting_for_interrupt(wait: bool) -> Iterator[threading.Event]:
    """Set an event at the first Ctrl-C instead of raising it; a second one raises as usual.

    Nothing changes if `wait` is False, or in a thread, which signals do not reach.
    """
    asked, previous = threading.Event(), signal.getsignal(signal.SIGINT)
    if not wait or threading.current_thread() is not threading.main_thread() or previous is None:
        yield asked
        return

    def note(*_: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def counting_unconverged(loss_fn: object = None) -> Iterator[Callable[[], int]]:
    """Count the solves inside that do not converge, and warn once at the end.

    A loss raises a :class:`~wassloss.transport.ConvergenceWarning` or, in CUDA graphs, where it
    cannot, counts by itself. Other warnings are shown as usual. Yields the count so far.
    """
    warned, last = 0, "CUDA graphs do not record what was wrong; train without one to see."
    parts = list(loss_fn.modules()) if isinstance(loss_fn, nn.Module) else [loss_fn]

    def count() -> int:
        # Asked of the loss anew each time, because its counters move between devices.
        counters = [getattr(part, "unsolved", None) for part in parts]
        return warned + sum(int(each) for each in counters if isinstance(each, Tensor))

    before = count()
    with warnings.catch_warnings():
        others = warnings.showwarning

        def note(message: Warning | str, category: type[Warning], *where: Any) -> None:
            nonlocal warned, last
            if issubclass(category, ConvergenceWarning):
                warned, last = warned + 1, str(message)
            else:
                others(message, category, *where)

        warnings.filterwarnings("always", category=ConvergenceWarning)
        warnings.showwarning = note  # type: ignore[assignment]
        yield lambda: count() - before
    if found := count() - before:
        message = f"{found} solves did not converge; the last said: {last}"
        warnings.warn(message, ConvergenceWarning, stacklevel=3)
