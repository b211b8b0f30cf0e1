"""Train a language model with Hugging Face's `Trainer` without storing all logits at once.

`LinearWassersteinLoss` takes the hidden states and the weight of the head, so `compute_loss` calls
the decoder without its head. The model is a small Llama, built from a configuration; nothing is
downloaded.
"""

from __future__ import annotations

from typing import Any

import torch
from numbers_trainer import Sums, settings, small_llama
from sums import VOCABULARY, answers_off
from torch import Tensor
from transformers import Trainer, TrainingArguments

import wassloss as wl


class HeadTrainer(Trainer):
    """Train on hidden states; `loss_fn` has the reduction ``"sum"``."""

    def __init__(self, *args: Any, loss_fn: wl.LinearWassersteinLoss, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.loss_fn = loss_fn.to(self.args.device)

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        labels = inputs.pop("labels")[:, 1:]
        outputs = model.model(**inputs)  # without the head
        hidden = outputs.last_hidden_state[:, :-1]
        count = num_items_in_batch or (labels != -100).sum()
        loss = self.loss_fn(hidden, model.lm_head.weight, labels) / count
        return (loss, outputs) if return_outputs else loss


def main(folder: str, epochs: int = 60) -> tuple[float, float]:
    """Train; return the mean error of the answers before and after."""
    model, data = small_llama(), Sums()
    digits = [VOCABULARY[digit] for digit in "0123456789"]
    metric = wl.ground.Subset(wl.ground.Ordinal(10), digits, len(VOCABULARY), far=10.0)
    trainer = HeadTrainer(
        model=model,
        args=TrainingArguments(output_dir=folder, **settings(epochs)),
        train_dataset=data,
        loss_fn=wl.LinearWassersteinLoss(metric, kl_weight=1.0, reduction="sum"),
    )

    @torch.no_grad()
    def off() -> float:
        return answers_off(model(data.ids).logits, data.ids)

    before = off()
    trainer.train()
    return before, off()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        print("off, before and after: {:.1f} {:.1f}".format(*main(folder)))
