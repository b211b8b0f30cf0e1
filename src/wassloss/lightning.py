"""A Lightning module that trains any network with any loss and logs the scores of wassloss.

>>> import lightning, torch, wassloss as wl
>>> from wassloss.lightning import WassersteinModule
>>> network, loss_fn = torch.nn.Linear(4, 3), wl.WassersteinLoss(wl.ground.Ordinal(3))
>>> module = WassersteinModule(network, loss_fn, scores=["accuracy", "mean_distance"])

`lightning.Trainer(...).fit(module, train_loader, validation_loader)` trains the network in place,
with Lightning's checkpoints, devices and distributed training. Install it with
``pip install "wassloss[lightning]"``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data.distributed import DistributedSampler

from wassloss import scores as library
from wassloss.ground import GroundMetric
from wassloss.scores._score import score_of

try:
    from lightning import LightningModule
    from torchmetrics import MeanMetric, Metric

    from wassloss.scores.accumulators import Accumulator
except ImportError as error:
    message = 'wassloss.lightning needs Lightning: pip install "wassloss[lightning]"'
    raise ImportError(message) from error

__all__ = ["WassersteinModule"]


def __dir__() -> list[str]:
    return __all__


_ALIASES = {"mean_distance": "top_k_cost"}  # its name in scorers and on the command line
Scores = Iterable[str | Callable[..., Any]] | Mapping[str, Metric]


class WassersteinModule(LightningModule):
    """Train a network with any loss of logits, and log scores of its predictions.

    Batches are `(features, target)`, or `(features, target, sample_weight)`, with targets in any
    form that the loss takes.

    =================================  =========================================================
    ``train_loss``                     per step and per epoch
    ``val_loss``, ``test_loss``        the mean over batches, weighted by their sizes
    ``val_<score>``, ``test_<score>``  over all examples
    =================================  =========================================================

    All of these are shown in the progress bar, too. Losses and scores of validation and test do not
    depend on the number of processes: examples that Lightning's distributed sampler repeats count
    once.

    Args:
        network: maps features to logits `(batch, labels)`, or to log-masses.
        loss_fn: a module or function of the network's output and the target that returns a mean,
            such as :class:`~wassloss.WassersteinLoss` or `torch.nn.CrossEntropyLoss`.
        metric: the ground metric of the scores; by default the loss's own, if it has one.
        scores: names or functions of :mod:`wassloss.scores`, or a mapping from the names to log to
            torchmetrics metrics; by default ``"accuracy"`` and, with a metric,
            ``"mean_distance"``.
        optimizer: returns an optimiser of the parameters; by default Adam with its default learning
            rate. For more, override `configure_optimizers`.
        scheduler: returns a scheduler of the optimiser, which is stepped once per epoch.

    >>> import functools, torch, wassloss as wl
    >>> metric = wl.ground.Ordinal(3)
    >>> module = WassersteinModule(
    ...     torch.nn.Linear(4, 3),
    ...     torch.nn.CrossEntropyLoss(),
    ...     metric=metric,
    ...     optimizer=functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    ... )
    >>> sorted(module.val_scores)
    ['accuracy', 'mean_distance']
    """

    def __init__(
        self,
        network: nn.Module,
        loss_fn: Callable[..., Tensor],
        *,
        metric: GroundMetric | None = None,
        scores: Scores | None = None,
        optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] = torch.optim.Adam,
        scheduler: Callable[[torch.optim.Optimizer], Any] | None = None,
    ) -> None:
        super().__init__()
        reduction = getattr(loss_fn, "reduction", "mean")
        if reduction != "mean":
            raise ValueError(f'loss_fn must have reduction="mean", got {reduction!r}')
        self.network, self.loss_fn = network, loss_fn
        self.optimizer, self.scheduler = optimizer, scheduler
        metric = getattr(loss_fn, "metric", None) if metric is None else metric
        if scores is None:
            scores = ["accuracy"] if metric is None else ["accuracy", "mean_distance"]
        self.val_scores, self.test_scores = (
            _accumulators(scores, metric),
            _accumulators(scores, metric),
        )
        self.val_loss, self.test_loss = MeanMetric(), MeanMetric()

    def forward(self, features: Any) -> Tensor:
        """The network's output."""
        output: Tensor = self.network(features)
        return output

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        features, *rest = batch
        loss = self.loss_fn(self(features), *rest)
        size = len(rest[0])
        self.log(
            "train_loss",
            loss,
            prog_bar=True,
            on_step=True,
            on_epoch=True,
            sync_dist=True,
            batch_size=size,
        )
        return loss

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._judge("val", batch, batch_idx, dataloader_idx, self.trainer.val_dataloaders)

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._judge("test", batch, batch_idx, dataloader_idx, self.trainer.test_dataloaders)

    def configure_optimizers(self) -> Any:
        optimizer = self.optimizer(self.parameters())
        if self.scheduler is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": self.scheduler(optimizer)}

    def _judge(
        self, stage: str, batch: Any, batch_idx: int, dataloader_idx: int, loader: Any
    ) -> None:
        """Add a batch to the loss and the scores of a stage, and log them."""
        if dataloader_idx:
            raise ValueError("validation and test must have one dataloader, got several")
        features, *rest = batch
        output, mean = self(features), getattr(self, f"{stage}_loss")
        seen_once = _seen_once(loader, batch_idx, len(output))
        if not seen_once.all():
            output, rest = output[seen_once], [column[seen_once] for column in rest]
        if len(output):
            mean.update(self.loss_fn(output, *rest), len(output))
        self.log(f"{stage}_loss", mean, prog_bar=True)
        for name, score in getattr(self, f"{stage}_scores").items():
            if len(output):
                score.update(_predictions(output, score), *rest)
            self.log(f"{stage}_{name}", score, prog_bar=True)


def _accumulators(scores: Scores, metric: GroundMetric | None) -> nn.ModuleDict:
    """Metrics by the names to log."""
    if isinstance(scores, Mapping):
        return nn.ModuleDict({name: score.clone() for name, score in scores.items()})
    if isinstance(scores, str):
        raise TypeError(f"scores must be a list of names or functions, got {scores!r}")
    made: dict[str, nn.Module] = {}
    for score in scores:
        function, options = _named(score) if isinstance(score, str) else score, dict[str, Any]()
        name = score if isinstance(score, str) else function.__name__
        if score_of(function).takes_metric:
            if metric is None:
                raise ValueError(f"metric must be given for the score {name!r}, got None")
            options["metric"] = metric
        made[name] = Accumulator(function, **options)
    return nn.ModuleDict(made)


def _named(score: str) -> Callable[..., Any]:
    """The score with this name."""
    name = _ALIASES.get(score, score)
    if name not in library.__all__:
        raise ValueError(f"scores must be names of wassloss.scores, got {score!r}")
    function: Callable[..., Any] = getattr(library, name)
    return function


def _predictions(output: Tensor, score: nn.Module) -> Tensor:
    """The predictions that a score takes: logits or probabilities."""
    ranked = not isinstance(score, Accumulator) or score_of(score.function).predictions == "scores"
    return output if ranked else output.softmax(1)


def _seen_once(loader: Any, batch_idx: int, size: int) -> Tensor:
    """Mark the examples of a batch that are not repetitions, `(size,)`.

    `DistributedSampler` repeats the first examples at the end, so that all processes have the same
    number of examples.
    """
    loader = loader[0] if isinstance(loader, list | tuple) else loader
    sampler, batch_size = (getattr(loader, name, None) for name in ("sampler", "batch_size"))
    if not isinstance(sampler, DistributedSampler) or sampler.drop_last or batch_size is None:
        return torch.ones(size, dtype=torch.bool)
    first = batch_idx * batch_size
    places = sampler.rank + sampler.num_replicas * torch.arange(first, first + size)
    once: Tensor = places < len(sampler.dataset)  # type: ignore[arg-type]
    return once
