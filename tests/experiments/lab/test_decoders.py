import torch
from torch import Tensor, nn

from experiments.lab.decoders import Decoders, Size, answer_greedily, train_decoders

SMALL = Size(width=16, layers=1, heads=2, batch=8, steps=60, rate=1e-2)
# The answer is the number itself, and then the next one.
TEXTS = torch.tensor([[n, 5, n, (n + 1) % 5] for n in range(5)])


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    each = [
        nn.functional.cross_entropy(x.flatten(0, 1), y.flatten())
        for x, y in zip(logits, labels, strict=True)
    ]
    return torch.stack(each).sum()


def test_models_trained_together_are_those_trained_alone() -> None:
    together = Decoders([1, 2], 6, 4, SMALL)
    train_decoders(together, TEXTS, 2, _loss, [1, 2])
    alone = Decoders([2], 6, 4, SMALL)
    train_decoders(alone, TEXTS, 2, _loss, [2])
    for name, weights in alone.named_parameters():
        torch.testing.assert_close(together.get_parameter(name)[1:], weights, rtol=1e-3, atol=1e-3)


def test_they_learn_and_answer() -> None:
    models = Decoders([0, 1, 2], 6, 4, SMALL)
    train_decoders(models, TEXTS, 2, _loss, [0, 1, 2])
    said = answer_greedily(models, TEXTS, 2, 5)
    assert torch.equal(said, TEXTS[:, 2:].expand(3, -1, -1))


def test_no_token_sees_the_next() -> None:
    models = Decoders([0], 6, 4, SMALL)
    ids = TEXTS.unsqueeze(0)
    before = models(ids, 4)
    changed = ids.clone()
    changed[..., 3] = 5
    torch.testing.assert_close(models(changed, 4)[:, :, :3], before[:, :, :3])


def test_a_loss_from_hidden_states_trains_the_same() -> None:
    plain, own_head = Decoders([3], 6, 4, SMALL), Decoders([3], 6, 4, SMALL)
    train_decoders(plain, TEXTS, 2, _loss, [3])

    def of_hidden(hidden: Tensor, labels: Tensor) -> Tensor:
        return _loss(hidden @ own_head.head[:, None], labels)

    train_decoders(own_head, TEXTS, 2, of_hidden, [3], from_hidden=True)
    for name, weights in plain.named_parameters():
        torch.testing.assert_close(own_head.get_parameter(name), weights, rtol=1e-3, atol=1e-3)
