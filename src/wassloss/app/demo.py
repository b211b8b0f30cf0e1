"""Compare cross-entropy with the Wasserstein loss on WordNet's definitions, without tuning.

One small network per loss and seed takes about a minute in all. :func:`wassloss.compare` would need
eighty linear fits to thousands of words and 339 classes, which take many minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor

from wassloss.app.report import Report, check_page, write_report
from wassloss.app.report.answers import answers_report
from wassloss.datasets import load_definitions
from wassloss.estimators import WassersteinClassifier

CE, W = "cross-entropy", "Wasserstein"
_WORD = "[a-z]+"
_TEST, _TRAIN = 10_000, 3000  # definitions
_SHORT = 60  # most characters of a definition shown as a mistake
_TITLES = {
    "accuracy": "accuracy",
    "mean_distance": "mean distance",
    "mean_distance_of_5": "mean distance of 5 guesses",
    "grave": "grave mistakes",
    "nll": "neg. log-likelihood",
}


def run_demo(out: Path, seeds: int, quick: bool, say: Callable[[str], None]) -> tuple[Report, Path]:
    """Train a network with both losses and several seeds, and compare them on unseen definitions.

    Each seed draws its own training definitions, initial weights and order of examples. Only the
    loss differs between the two networks of a seed.

    Returns:
        The report, and the path of its page.
    """
    page = out / "report.html"
    check_page(page)  # fail before training, not after it
    data = load_definitions()
    texts, classes = np.array(data.data), data.target.numpy()
    logits: dict[str, list[Tensor]] = {CE: [], W: []}
    order = np.random.default_rng(0).permutation(len(texts))
    test, rest = order[: 1000 if quick else _TEST], order[_TEST:]
    train = 1000 if quick else _TRAIN
    for seed in range(seeds):
        rows = np.random.default_rng(seed).permutation(rest)[:train]
        words = TfidfVectorizer(token_pattern=_WORD, min_df=2, use_idf=False, norm="l1")
        X = words.fit_transform(texts[rows])  # share of each word in a text
        for name, weight in ((CE, 0.0), (W, 1.0)):
            say(f"{name}: training a network, {seed + 1} of {seeds}")
            network = WassersteinClassifier(
                data.metric,
                classes=range(data.metric.size),
                transport_weight=weight,
                hidden_layer_sizes=(128,),
                standardize=False,
                alpha=0.0,
                batch_size=100,
                max_iter=5 if quick else 20,
                random_state=seed,
            )
            network.fit(X, classes[rows])
            log_p = network.predict_log_proba(words.transform(texts[test]))
            logits[name].append(torch.from_numpy(log_p))
    say("writing the report")
    found = answers_report(
        {name: torch.cat(own) for name, own in logits.items()},
        data.target[torch.from_numpy(test)].repeat(seeds),
        data.metric,
        labels=data.target_names,
        describe=lambda i: (data.words[test[i]], data.data[test[i]]),
        may_show=np.array([len(data.data[row]) <= _SHORT for row in test]),
        seeds=seeds,
        titles=_TITLES,
        warnings=["A quick run, to see that it works: these are not results."] if quick else [],
        notes=[
            f"Both losses train on {train} definitions of nouns and are scored on {len(test)} "
            f"others, in {data.metric.size} classes of WordNet. The distance between two classes "
            "is the height of their lowest common ancestor. A grave mistake has almost nothing in "
            "common with the truth.",
            "Both use the same network (one hidden layer of 128 units on word frequencies), "
            f"optimiser, learning rate and {seeds} {'seed' if seeds == 1 else 'seeds'}. The "
            "Wasserstein loss has its default parameters.",
            "The mistakes shown are those of the first seed on short definitions that both losses "
            "get wrong: in each direction, the five with the largest difference in distance.",
        ],
        unit="definition",
    )
    out.mkdir(parents=True, exist_ok=True)
    write_report(found, page)
    return found, page
