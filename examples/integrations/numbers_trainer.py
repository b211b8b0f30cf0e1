"""Numbers in a language model with Hugging Face's `Trainer`: the loss as `compute_loss_func`.

The model is a small Llama, built from a configuration; nothing is downloaded.
"""

from __future__ import annotations

from typing import Any

import torch
from sums import VOCABULARY, all_sums, answers_off, labels_of
from torch import Tensor
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

import wassloss as wl


class Sums(Dataset[dict[str, Tensor]]):
    """The hundred sums, in the format of `Trainer`."""

    def __init__(self) -> None:
        self.ids = all_sums()
        self.labels = labels_of(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self.ids[index], "labels": self.labels[index]}


def small_llama() -> LlamaForCausalLM:
    """Return a decoder with one layer."""
    set_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(VOCABULARY),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=1,
            num_attention_heads=4,
            max_position_embeddings=16,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=VOCABULARY["<pad>"],
        )
    )


def settings(epochs: int) -> dict[str, Any]:
    """Training arguments, shared with the TRL example."""
    return {
        "num_train_epochs": epochs,
        "per_device_train_batch_size": 50,
        "learning_rate": 5e-3,
        "use_cpu": True,
        "report_to": [],
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }


def main(folder: str, epochs: int = 60) -> tuple[float, float]:
    """Train; return the mean error of the answers before and after."""
    model, data = small_llama(), Sums()
    loss_fn = wl.NumberTokenLoss(VOCABULARY, reduction="sum")

    def compute_loss(
        outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        # Labels are not shifted yet. Dividing the sum by the number of labels keeps accumulated
        # batches correct.
        total = loss_fn(outputs.logits[:, :-1], labels[:, 1:])
        return total / (num_items_in_batch or (labels[:, 1:] != -100).sum())

    trainer = Trainer(
        model=model,
        args=TrainingArguments(output_dir=folder, **settings(epochs)),
        train_dataset=data,
        compute_loss_func=compute_loss,
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
