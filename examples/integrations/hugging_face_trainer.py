"""Hugging Face `Trainer`: a small BERT, built from a configuration, that rates simulated reviews.

`Trainer` takes the loss as `compute_loss_func`; nothing is downloaded.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EvalPrediction,
    Trainer,
    TrainingArguments,
    set_seed,
)

import wassloss as wl

STARS, WORDS, LENGTH = 5, 40, 12


class Reviews(Dataset[dict[str, Tensor]]):
    """Reviews of twelve words; more from the second half of the vocabulary mean more stars."""

    def __init__(self, count: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.stars = torch.randint(STARS, (count,), generator=generator)
        good = torch.rand(count, LENGTH, generator=generator) < self.stars[:, None] / (STARS - 1)
        words = torch.randint(1, WORDS // 2, (count, LENGTH), generator=generator)
        self.words = words + good * (WORDS // 2)

    def __len__(self) -> int:
        return len(self.stars)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self.words[index], "labels": self.stars[index]}


def main(folder: str, epochs: int = 3) -> tuple[float, float]:
    """Train; return the mean error before and after, in stars."""
    set_seed(0)
    metric = wl.ground.Ordinal(STARS)
    loss_fn = wl.WassersteinLoss(metric, reduction="sum")

    def compute_loss(
        outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        # Divide the sum by the number of examples, so that accumulated batches are weighted
        # correctly.
        return loss_fn(outputs.logits, labels) / (num_items_in_batch or len(labels))

    def compute_metrics(given: EvalPrediction) -> dict[str, float]:
        return {"stars_off": wl.scores.top_k_cost(given.predictions, given.label_ids, metric)}

    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        num_labels=STARS,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=TrainingArguments(
            output_dir=folder,
            num_train_epochs=epochs,
            per_device_train_batch_size=32,
            learning_rate=3e-3,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        ),
        train_dataset=Reviews(512, seed=0),
        eval_dataset=Reviews(128, seed=1),
        compute_loss_func=compute_loss,
        compute_metrics=compute_metrics,
    )
    before = trainer.evaluate()["eval_stars_off"]
    trainer.train()
    return before, trainer.evaluate()["eval_stars_off"]


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        print("stars off, before and after: {:.2f} {:.2f}".format(*main(folder)))
