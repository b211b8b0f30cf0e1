"""What each process of `torchrun` does in test_lightning.py, and what one does alone."""

import json
import sys
import warnings
from pathlib import Path

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

import wassloss as wl
from tests.problems import LABELS, grades, linear
from wassloss.lightning import WassersteinModule

TRAINED, JUDGED = 80, 101  # an odd number, so that the sampler has to repeat an example


def main(processes: int, folder: str) -> None:
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(LABELS))
    names = ["accuracy", "mean_distance", "quadratic_weighted_kappa", "negative_log_likelihood"]
    module = WassersteinModule(linear(), loss_fn, scores=names)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=processes,
        strategy="ddp" if processes > 1 else "auto",
        max_epochs=3,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    # Together, the processes take all examples in each step.
    trained = DataLoader(TensorDataset(*grades(TRAINED)), batch_size=TRAINED // processes)
    judged = DataLoader(TensorDataset(*grades(JUDGED, seed=1)), batch_size=10)
    trainer.fit(module, trained)
    (found,) = trainer.validate(module, judged, verbose=False)
    if trainer.is_global_zero:
        Path(folder, f"{processes}.json").write_text(json.dumps(found))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    warnings.filterwarnings("ignore")  # advice about workers and several devices
    main(int(sys.argv[1]), sys.argv[2])
