"""What each process of `torchrun` does in test_linear_head.py: it holds half of the words."""

import torch
import torch.distributed as dist

import wassloss as wl
from tests.losses.test_linear_head import (
    WORDS,
    composed,
    head_chunks,
    metrics,
    problem,
    with_gradients,
)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    group, half = dist.group.WORLD, (WORDS + 1) // 2
    own = slice(half * dist.get_rank(), half * (dist.get_rank() + 1))
    head_chunks.CHUNK_BYTES = 3 * half * 56
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
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
