"""Numbers in a language model with TRL's `SFTTrainer`: override `compute_loss`.

Model and tokenizer are built in the script; nothing is downloaded.
"""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset
from numbers_trainer import settings, small_llama
from sums import VOCABULARY, all_sums, answers_off, labels_of
from tokenizers import Tokenizer, models
from torch import Tensor
from transformers import PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

import wassloss as wl


class NumberTrainer(SFTTrainer):
    """Supervised fine-tuning with a loss that knows the distance between numbers."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.loss_fn = wl.NumberTokenLoss(self.processing_class, reduction="sum")
        self.loss_fn.to(self.args.device)

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        labels = inputs.pop("labels")[:, 1:]
        outputs = model(**inputs)
        count = num_items_in_batch or (labels != -100).sum()
        loss = self.loss_fn(outputs.logits[:, :-1], labels) / count
        return (loss, outputs) if return_outputs else loss


def main(folder: str, epochs: int = 60) -> tuple[float, float]:
    """Train; return the mean error of the answers before and after."""
    model, ids = small_llama(), all_sums()
    characters = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<pad>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=characters, pad_token="<pad>")
    trainer = NumberTrainer(
        model=model,
        args=SFTConfig(output_dir=folder, **settings(epochs)),
        train_dataset=Dataset.from_dict(
            {"input_ids": ids.tolist(), "labels": labels_of(ids).tolist()}
        ),
        processing_class=tokenizer,
    )

    @torch.no_grad()
    def off() -> float:
        return answers_off(model(ids).logits, ids)

    before = off()
    trainer.train()
    return before, off()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        print("off, before and after: {:.1f} {:.1f}".format(*main(folder)))
