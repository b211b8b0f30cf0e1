"""Tasks for networks: examples in three parts, a metric, a model and its optimiser."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, load_digits
from torch import Tensor, nn

from experiments.corpora.distributions import ORDERED, label_distributions
from experiments.corpora.ordered import ordered_table
from experiments.corpora.tiny_imagenet import TinyImageNet, tiny_imagenet
from experiments.lab.labelled import LabelledSet, load_labelled
from experiments.lab.networks.images import ResNet18
from experiments.lab.sparse import take
from wassloss import SparseTarget
from wassloss.datasets import load_definitions
from wassloss.ground import Embedding, GroundMetric, Matrix, Ordinal, Tree

Kind = Literal["taxonomy", "ordered", "tags", "distribution"]
Target = Tensor | SparseTarget


@dataclass(frozen=True)
class Part:
    """Examples `(n, …)` and their targets."""

    features: Tensor
    target: Target

    def __len__(self) -> int:
        return len(self.features)

    def rows(self, chosen: Tensor) -> Part:
        return Part(self.features[chosen], take(self.target, chosen))

    def to(self, device: torch.device) -> Part:
        target = self.target
        if isinstance(target, SparseTarget):
            target = SparseTarget(target.indices.to(device), target.weights.to(device))
        else:
            target = target.to(device)
        return Part(self.features.to(device), target)


@dataclass(frozen=True)
class Recipe:
    """How to train a network, with a learning rate that rises and falls once (one-cycle).

    Attributes:
        rate: the highest learning rate.
        decay: the weight decay.
        momentum: of SGD; None for AdamW.
    """

    epochs: int
    rate: float
    decay: float = 0.0
    batch: int = 100
    momentum: float = 0.0


@dataclass(frozen=True)
class Task:
    """Data, their metric and a network.

    Attributes:
        metric: with power 1; used by the loss and the scores.
        model: creates a network.
        grave: distance from which a mistake is a grave one.
    """

    name: str
    kind: Kind
    metric: GroundMetric
    train: Part
    validation: Part
    test: Part
    model: Callable[[], nn.Module]
    recipe: Recipe
    grave: float
    tree: tuple[tuple[str, ...], ...] | None = field(default=None, repr=False)


def perceptron(features: int, labels: int, hidden: tuple[int, ...], dropout: float) -> nn.Module:
    """A network with ReLU layers, or a linear one without hidden layers."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(features, width), nn.ReLU(), nn.Dropout(dropout)]
        features = width
    return nn.Sequential(*layers, nn.Linear(features, labels))


class BagOfWords(nn.Module):
    """The mean of learned word embeddings, and a linear layer."""

    def __init__(self, words: int, labels: int, width: int = 128) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(words, width, mode="mean", padding_idx=0)
        self.head = nn.Linear(width, labels)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.embedding(x))
        return logits


class Transformer(nn.Module):
    """Two layers of attention over words, and a linear layer on their mean."""

    def __init__(self, words: int, labels: int, longest: int = 40, width: int = 128) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.position = nn.Parameter(0.02 * torch.randn(longest, width))
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, labels)

    def forward(self, x: Tensor) -> Tensor:
        padding = x == 0
        padding[:, 0] = False  # give texts without words something to attend to
        encoded = self.encoder(self.embedding(x) + self.position, src_key_padding_mask=padding)
        there = (~padding).unsqueeze(2).float()
        logits: Tensor = self.head((encoded * there).sum(1) / there.sum(1))
        return logits


def definitions(
    seed: int, *, examples: int, epochs: int, heights: bool = True, attention: bool = False
) -> Task:
    """WordNet's definitions and taxonomy: 10 000 to test, 2000 to validate, `examples` to train.

    Distances are heights of the lowest common ancestor, or path lengths.
    """
    read = _definitions()
    rng = np.random.default_rng(seed)
    order = np.random.default_rng(0).permutation(len(read.data))
    test, rest = order[:10_000], rng.permutation(order[10_000:])
    train, validation = rest[:examples], rest[examples : examples + 2000]
    known = _vocabulary([read.data[i] for i in train])

    def part(rows: NDArray[np.int64]) -> Part:
        return Part(_encoded([read.data[i] for i in rows], known), read.target[rows])

    metric = _taxonomy(heights)
    return Task(
        f"definitions {examples}{'' if heights else ', path lengths'}",
        "taxonomy",
        metric,
        part(train),
        part(validation),
        part(test),
        partial(Transformer if attention else BagOfWords, len(known) + 2, metric.size),
        Recipe(epochs, 0.001, 0.01) if attention else Recipe(epochs, 0.01),
        grave=float(metric.max_cost()) * 0.9,
        tree=read.paths,
    )


@lru_cache(1)
def _definitions() -> Any:
    return load_definitions()


def words_of(text: str) -> list[str]:
    """The words of a definition.

    >>> words_of("a small boat (propelled by oars)")
    ['a', 'small', 'boat', 'propelled', 'by', 'oars']
    """
    return re.findall(r"[a-z]+", text.lower())


@lru_cache(2)
def _taxonomy(heights: bool) -> GroundMetric:
    paths = _definitions().paths
    return Tree.from_paths(paths, distance="lca_height" if heights else "path")


def _vocabulary(texts: list[str], least: int = 2) -> dict[str, int]:
    """Number the words that occur in at least `least` texts from 2: 0 is padding, 1 other words."""
    counts: dict[str, int] = {}
    for text in texts:
        for word in set(words_of(text)):
            counts[word] = counts.get(word, 0) + 1
    kept = sorted(word for word, count in counts.items() if count >= least)
    return {word: number for number, word in enumerate(kept, 2)}


def _encoded(texts: list[str], known: Mapping[str, int], longest: int = 40) -> Tensor:
    rows = torch.zeros(len(texts), longest, dtype=torch.long)
    for row, text in zip(rows, texts, strict=True):
        numbers = [known.get(word, 1) for word in words_of(text)[:longest]]
        row[: len(numbers)] = torch.tensor(numbers)
    return rows


def ordered(seed: int, *, name: str, most: int = 2000) -> Task:
    """An ordered table: up to `most` rows to train, a quarter of that to validate, 5000 to test."""
    x, y = ordered_table(name)
    return _table(name, "ordered", x, torch.from_numpy(y), Ordinal(int(y.max()) + 1), seed, most)


def distribution(seed: int, *, name: str) -> Task:
    """Label distributions; the distance of labels without an order is that of their occurrence."""
    x, y = label_distributions(name)
    target = torch.from_numpy(y).float()
    metric: GroundMetric = Ordinal(y.shape[1])
    if name not in ORDERED:
        # From all examples, because every loss uses the same metric.
        metric = Embedding(torch.from_numpy(((y - y.mean(0)) / y.std(0)).T).float())
        metric = Matrix(metric.distance() / metric.median_cost())
    return _table(name, "distribution", x, target, metric, seed, 2000)


def digits(seed: int, *, hidden: tuple[int, ...] = (128, 128)) -> Task:
    """Scikit-learn's digits, with labels on a line."""
    x, y = load_digits(return_X_y=True)
    return _table("digits", "ordered", x, torch.from_numpy(y), Ordinal(10), seed, 1000, hidden)


def grades(seed: int, *, hidden: tuple[int, ...] = (128, 128)) -> Task:
    """Ten grades of the progression of diabetes in 442 patients."""
    x, progression = load_diabetes(return_X_y=True)
    edges = np.quantile(progression, np.linspace(0, 1, 11)[1:-1])
    y = torch.from_numpy(np.searchsorted(edges, progression))
    return _table("grades", "ordered", x, y, Ordinal(10), seed, 2000, hidden)


def _table(
    name: str,
    kind: Kind,
    x: NDArray[np.float64],
    y: Tensor,
    metric: GroundMetric,
    seed: int,
    most: int,
    hidden: tuple[int, ...] = (128, 128),
) -> Task:
    """Use half of the rows, at most `most`, to train, a quarter of that to validate, 5000 to test.

    The seed splits the rows outside the test part.
    """
    order = np.random.default_rng(0).permutation(len(x))
    train = min(len(x) // 2, most)
    test = min(len(x) - train - train // 4, 5000)
    rest = np.random.default_rng(seed).permutation(order[test:])
    rows = [torch.from_numpy(r) for r in (rest[:train], rest[train:][: train // 4], order[:test])]
    mean, spread = x[rows[0]].mean(0), x[rows[0]].std(0)
    features = torch.from_numpy((x - mean) / np.where(spread > 0, spread, 1)).float().clamp(-5, 5)
    whole = Part(features, y)
    name = name if hidden else f"{name}, linear"
    return Task(
        name,
        kind,
        metric,
        train=whole.rows(rows[0]),
        validation=whole.rows(rows[1]),
        test=whole.rows(rows[2]),
        model=partial(perceptron, x.shape[1], metric.size, hidden, 0.1 if hidden else 0.0),
        recipe=Recipe(max(20, 40_000 // train), 0.003 if hidden else 0.03, 0.01),
        grave=2.0 if kind == "ordered" else float(metric.max_cost()),
    )


def tags(seed: int, *, name: str, hidden: tuple[int, ...] = (512,)) -> Task:
    """Flickr8k, Delicious or clip art, with the parts of these sets."""
    data = _tagged(name)
    features = data.train.features.shape[1]
    return Task(
        name if hidden else f"{name}, linear",
        "tags",
        data.metric,
        train=Part(data.train.features, data.train.target),
        validation=Part(data.validation.features, data.validation.target),
        test=Part(data.test.features, data.test.target),
        model=partial(perceptron, features, data.metric.size, hidden, 0.5 if hidden else 0.0),
        recipe=Recipe(12, 0.002 if hidden else 0.01, 0.01),
        grave=float(data.metric.max_cost()),
    )


@lru_cache(2)
def _tagged(name: str) -> LabelledSet:
    return load_labelled(name, torch.device("cpu"))


def images(seed: int, *, per_class: int, epochs: int, width: int = 64) -> Task:
    """Tiny ImageNet with `per_class` images per class to train, ten to validate; LCA heights."""
    data = _images()
    rng = np.random.default_rng(seed)
    rows = [500 * label + rng.permutation(500) for label in range(len(data.paths))]
    classes = torch.arange(len(data.paths)).repeat_interleave(500)

    def part(first: int, last: int) -> Part:
        chosen = torch.from_numpy(np.concatenate([own[first:last] for own in rows]))
        return Part(data.train[chosen], classes[chosen])

    metric = Tree.from_paths(data.paths, distance="lca_height")
    return Task(
        f"Tiny ImageNet {per_class}",
        "taxonomy",
        metric,
        train=part(0, per_class),
        validation=part(per_class, per_class + 10),
        test=Part(data.test, data.test_classes),
        model=partial(ResNet18, metric.size, width),
        recipe=Recipe(epochs, 0.2, 5e-4, batch=512, momentum=0.9),
        grave=float(metric.max_cost()) * 0.9,
        tree=data.paths,
    )


@lru_cache(1)
def _images() -> TinyImageNet:
    return tiny_imagenet()


# Functions by name that create a task from the seed of its split.
TASKS: dict[str, Callable[[int], Task]] = {
    "tiny-imagenet-50": partial(images, per_class=50, epochs=20),
    "tiny-imagenet-450": partial(images, per_class=450, epochs=30),
    "definitions-3000": partial(definitions, examples=3000, epochs=20),
    "definitions-3000-paths": partial(definitions, examples=3000, epochs=20, heights=False),
    "definitions-10000": partial(definitions, examples=10_000, epochs=10),
    "definitions-10000-paths": partial(definitions, examples=10_000, epochs=10, heights=False),
    "definitions-40000": partial(definitions, examples=40_000, epochs=5),
    "definitions-40000-paths": partial(definitions, examples=40_000, epochs=5, heights=False),
    "definitions-transformer": partial(definitions, examples=10_000, epochs=10, attention=True),
    **{
        name: partial(ordered, name=name)
        for name in ("abalone", "boston", "california", "cement", "machine", "stock")
    },
    "digits": digits,
    "digits-linear": partial(digits, hidden=()),
    "grades": grades,
    "grades-linear": partial(grades, hidden=()),
    **{
        name: partial(distribution, name=name)
        for name in (
            *("s-jaffe", "s-bu-3dfe", "emotion6"),
            *("fg-net", "yeast-alpha", "yeast-cdc", "yeast-spo"),
        )
    },
    "clipart": partial(tags, name="clipart"),
    "clipart-linear": partial(tags, name="clipart", hidden=()),
    "flickr8k": partial(tags, name="flickr8k"),
    "flickr8k-linear": partial(tags, name="flickr8k", hidden=()),
    "delicious": partial(tags, name="delicious"),
    "delicious-linear": partial(tags, name="delicious", hidden=()),
}


def load_task(name: str, seed: int) -> Task:
    """Load a task by name, split by `seed`."""
    if name not in TASKS:
        raise ValueError(f"name must be one of {', '.join(TASKS)}, got {name!r}")
    return replace(TASKS[name](seed), name=name)


def kind_of(name: str) -> Kind:
    """The kind of a task, without loading its data."""
    made = TASKS[name]
    by = made.func if isinstance(made, partial) else made
    kinds: dict[Callable[..., Task], Kind] = {images: "taxonomy", definitions: "taxonomy"}
    kinds |= {ordered: "ordered", digits: "ordered", grades: "ordered"}
    kinds |= {tags: "tags", distribution: "distribution"}
    return kinds[by]
