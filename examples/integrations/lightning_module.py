"""A Lightning module with the loss in `training_step` and a score of wassloss in the log."""

from __future__ import annotations

import lightning
import torch
from grades import GRADES, graded_patients
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import wassloss as wl
from wassloss.scores.accumulators import Accumulator


class GradePatients(lightning.LightningModule):
    """A linear model; loss and score are submodules, so Lightning moves them to the device."""

    def __init__(self, features: int, metric: wl.ground.GroundMetric) -> None:
        super().__init__()
        self.model = nn.Linear(features, metric.size)
        self.loss_fn = wl.WassersteinLoss(metric)
        self.distance_off = Accumulator(wl.scores.distance_at_k, metric)

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        features, grades = batch
        return self.loss_fn(self.model(features), grades)

    def validation_step(self, batch: tuple[Tensor, Tensor], _: int) -> None:
        features, grades = batch
        self.distance_off.update(self.model(features), grades)
        self.log("distance_off", self.distance_off)  # Lightning computes it over the epoch

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.model.parameters(), lr=0.03)


def main(epochs: int = 10) -> tuple[float, float]:
    """Train; return the mean error before and after, in grades."""
    lightning.seed_everything(0, verbose=False)
    x, y = graded_patients()
    # Loading is trivial, so worker processes would not help.
    loader = DataLoader(TensorDataset(x[:300], y[:300]), batch_size=50, shuffle=True)
    held_out = DataLoader(TensorDataset(x[300:], y[300:]), batch_size=50)
    module = GradePatients(x.shape[1], wl.ground.Ordinal(GRADES))
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    (before,) = trainer.validate(module, held_out, verbose=False)
    trainer.fit(module, loader, held_out)
    return before["distance_off"], float(trainer.callback_metrics["distance_off"])


if __name__ == "__main__":
    print("grades off, before and after: {:.2f} {:.2f}".format(*main()))
