"""The processes of `torchrun` in test_linear_head.py, each with a part of the weight."""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.fsdp
import torch.distributed.tensor

import wassloss as wl
from tests.language.test_linear_head import (
    WORDS,
    _memory,
    composed,
    metrics,
    problem,
    with_gradients,
)


class Head(torch.nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(features, WORDS, dtype=torch.float64)
        self.loss_fn = wl.LinearWassersteinLoss(metrics()["line"])

    def forward(self, hidden: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.loss_fn(hidden, self.linear.weight, target, self.linear.bias)
        return loss


def whole_words_sharded_parameters() -> None:
    """FSDP gathers the weight while its module runs; each process has its own tokens."""
    from torch.distributed.fsdp import fully_shard  # since torch 2.6

    hidden, _, _, target = problem()
    head = Head(hidden.shape[1])
    parts = torch.arange(10).reshape(2, 5)[:, :4]  # without the ignored token
    loss = sum(head(hidden[rows], target[rows]) for rows in parts) / 2
    expected = torch.autograd.grad(loss, list(head.parameters()))
    fully_shard(head, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
    rows = parts[dist.get_rank()]
    head(hidden.detach()[rows], target[rows]).backward()
    found = [x.grad.full_tensor() for x in head.parameters()]
    torch.testing.assert_close(found, list(expected))


def half_of_the_words() -> None:
    group, half = dist.group.WORLD, (WORDS + 1) // 2
    own = slice(half * dist.get_rank(), half * (dist.get_rank() + 1))
    _memory.LARGEST_CHUNK_BYTES = 3 * half * 56
    for metric in metrics().values():
        for reduction in ("mean", "none"):
            given = problem()
            keywords = {"reduction": reduction, "softcap": 2.0}
            expected = with_gradients(composed(metric, *given, **keywords), given[:3])
            expected = [*expected[:2], *[x[own] for x in expected[2:]]]
            hidden, *parts = [x.detach().clone() for x in given[:3]]
            inputs = [hidden, *[x[own].clone() for x in parts]]
            inputs = [x.requires_grad_() for x in inputs]
            loss_fn = wl.LinearWassersteinLoss(metric, process_group=group, **keywords)
            value = loss_fn(inputs[0], inputs[1], given[3], inputs[2])
            torch.testing.assert_close(with_gradients(value, inputs), expected)
    try:
        loss_fn(inputs[0], given[1], given[3])
    except ValueError as error:
        if "this process's part" not in str(error):
            raise
    else:
        raise SystemExit("a whole weight was taken for a part")


def rows_of_a_distributed_weight() -> None:
    """Tensor parallelism stores the weight as a DTensor; each process passes its part."""
    hidden, weight, bias, target = problem()
    metric = metrics()["line"]
    loss = composed(metric, hidden, weight, bias, target)
    expected = with_gradients(loss, [hidden, weight, bias])
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    rows, places = (
        dist.tensor.distribute_tensor(x.detach(), mesh, [dist.tensor.Shard(0)]).requires_grad_()
        for x in (weight, bias)
    )
    loss_fn = wl.LinearWassersteinLoss(metric, process_group=mesh.get_group())
    try:
        loss_fn(hidden, rows, target)
    except TypeError as error:
        if "pass weight.to_local() and process_group=mesh.get_group()" not in str(error):
            raise
    else:
        raise SystemExit("a DTensor was taken for a plain tensor")
    value = loss_fn(hidden, rows.to_local(), target, places.to_local())
    value.backward()
    found = [value.detach(), hidden.grad, rows.grad.full_tensor(), places.grad.full_tensor()]
    torch.testing.assert_close(found, expected)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    half_of_the_words()
    if hasattr(dist, "tensor"):  # public since torch 2.5
        rows_of_a_distributed_weight()
    if hasattr(torch.distributed.fsdp, "fully_shard"):
        whole_words_sharded_parameters()
    dist.barrier()  # neither exits while the other still communicates
    dist.destroy_process_group()
    # Torch's threads may abort the interpreter at exit, which is not what is tested.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
