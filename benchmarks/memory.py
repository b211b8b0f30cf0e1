"""What the loss needs beyond its inputs, on a GPU: `python benchmarks/memory.py`."""

from __future__ import annotations

import torch
from problems import Case, Work

import wassloss as wl

MEGABYTE = 2**20


def peak_megabytes(case: Case) -> float:
    """The most memory in use during loss and gradient, less what was in use before."""
    work = Work.of(case, "cuda")
    logits = work.h.log().requires_grad_()
    loss_fn = wl.WassersteinLoss(work.metric, epsilon=case.epsilon, kl_weight=0.1).cuda()
    for _ in range(2):  # the second time without what is made once, such as compiled kernels
        logits.grad = None
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        loss_fn(logits, work.target).backward()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
    return peak / MEGABYTE


if __name__ == "__main__":
    for support in (5, 20):
        case = Case(batch=1024, support=support, dtype="float32", tol=1e-5)
        print(f"{case}: {peak_megabytes(case):.1f} MB, the gradient's 3.9 MB among them")
