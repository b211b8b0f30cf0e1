"""Numbers in a language model with Lightning: the loss is a submodule and moves with the model."""

from __future__ import annotations

import lightning
import torch
from sums import VOCABULARY, Decoder, all_sums, answers_off, labels_of
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import wassloss as wl


class Sums(lightning.LightningModule):
    """A decoder that learns to add."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Decoder()
        self.loss_fn = wl.NumberTokenLoss(VOCABULARY)

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        ids, labels = batch
        return self.loss_fn(self.model(ids)[:, :-1], labels[:, 1:])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.model.parameters(), lr=3e-3)


def main(epochs: int = 60) -> tuple[float, float]:
    """Train; return the mean error of the answers before and after."""
    lightning.seed_everything(0, verbose=False)
    ids = all_sums()
    module = Sums()
    before = answers_off(module.model(ids), ids)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    data = TensorDataset(ids, labels_of(ids))
    trainer.fit(module, DataLoader(data, batch_size=50, shuffle=True))
    return before, answers_off(module.model(ids), ids)


if __name__ == "__main__":
    print("off, before and after: {:.1f} {:.1f}".format(*main()))
