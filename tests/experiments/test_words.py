"""Words in language models, on a synthetic corpus."""

from typing import Any

import numpy as np
import pytest
import torch

from experiments.corpora.glosses import Glosses
from experiments.figures import words
from experiments.lab.decoders import Decoders, Size
from experiments.lab.experiment import Outcome
from wassloss.ground import Embedding

SMALL = words.Settings(
    size=Size(width=16, layers=1, heads=2, batch=16, steps=150),
    tuning_steps=12,
    held_out=20,
    rates=(0.02,),
    only_rates=(0.02, 0.03),
    seeds=2,
)


def _corpus() -> Glosses:
    """Texts that count up from a word; the last two ids are read but not predicted."""
    size, length = 8, 5
    angles = torch.arange(size) * np.pi / size
    metric = Embedding(torch.stack([angles.cos(), angles.sin()], 1))
    first = np.random.default_rng(0).integers(0, size, 200)
    ids = (first[:, None] + np.arange(length + 1)) % size
    ids[:, 0] = size + 1
    ids[::3, -1] = size
    return Glosses(metric, ids, size + 2)


@pytest.fixture
def corpus(monkeypatch: pytest.MonkeyPatch) -> Glosses:
    data = _corpus()
    monkeypatch.setattr(words, "glosses", lambda *_: data)
    monkeypatch.setattr(words, "COMMON", 4)
    return data


def test_every_family_is_tried_as_often() -> None:
    counts = {family: len(trials) for family, trials in words._trials(words.Settings()).items()}
    assert len(set(counts.values())) == 1, counts


@pytest.mark.slow
def test_all_losses_learn_to_count(corpus: Glosses) -> None:
    found = words.compute(SMALL)
    following = corpus.ids[-20:, 1:]
    assert found["tokens"]["test"] == (following < 8).sum()
    for criterion in words.CRITERIA:
        assert set(found["scores"][criterion]) == {words.CE, *words.STRENGTHS, words.UNTOUCHED}
        for runs in found["scores"][criterion].values():
            # Only the first word of a text is unpredictable.
            assert all(run["accuracy"] > 0.75 for run in runs)
    untouched = found["chosen"]["nll"][words.UNTOUCHED]
    assert untouched["rate"] == found["chosen"]["nll"][words.CE]["rate"]
    pytest.importorskip("matplotlib")
    result = {"mode": "own", "settings": {"size": {"steps": 1}, "seeds": 2}, "found": found}
    assert set(words.draw(result)) == {"differences"}


def test_scores_are_those_of_the_predicted_words(corpus: Glosses) -> None:
    model = Decoders([0], corpus.tokens, corpus.ids.shape[1], SMALL.size)
    ids = torch.from_numpy(corpus.ids[:30])
    found = words._token_scores(model, corpus, ids, temperature=2.0)
    logits = model(ids[None, :, :-1], 5)[0, ..., :8].detach()
    counted = ids[:, 1:] < 8
    shares, truth = logits.log_softmax(-1)[counted], ids[:, 1:][counted, None]
    torch.testing.assert_close(found["nll"], -shares.gather(1, truth).squeeze(1))
    flat = (logits / 2).log_softmax(-1)[counted]
    torch.testing.assert_close(found["nll with a temperature"], -flat.gather(1, truth).squeeze(1))
    guesses = shares.topk(5).indices
    distances = torch.cdist(corpus.metric.vectors, corpus.metric.vectors)[guesses, truth]
    torch.testing.assert_close(found["distance"], distances[:, 0], atol=1e-3, rtol=0)
    torch.testing.assert_close(found["distance of 5"], distances.mean(1), atol=1e-3, rtol=0)

    run = words._as_json(found)
    together = words._together(corpus, slice(0, 30), [run, run])
    right, rare = found["accuracy"].bool().numpy(), truth.squeeze(1).numpy() >= 4
    np.testing.assert_array_equal(np.isnan(together["severity"][1]), right)
    np.testing.assert_array_equal(np.isnan(together["distance of rarer words"][0]), ~rare)


def _result(gap: float, to_rivals: float) -> dict[str, Any]:
    def interval(mean: float) -> dict[str, float]:
        return {"mean": mean, "low": mean - 0.1, "high": mean + 0.1}

    families = (words.CE, *words.STRENGTHS, words.UNTOUCHED)
    differences = {
        own: {
            other: {
                score: interval(gap if other == words.CE else to_rivals) for score in words.PANELS
            }
            for other in families
        }
        for own in families
    }
    chosen = {family: {"rate": 0.01, "strength": 1.0} for family in families}
    scores = {family: [dict.fromkeys((*words.PANELS, words.BY_MEAN), 1.0)] for family in families}
    found = {
        "differences": differences,
        "first word minus cross-entropy's by the mean": {words.W: interval(gap)},
        "chosen": chosen,
        "scores": scores,
    }
    return {"found": {name: dict.fromkeys(words.CRITERIA, of) for name, of in found.items()}}


@pytest.mark.parametrize(
    ("gap", "to_rivals", "outcomes"),
    [
        (-0.2, 0.0, [Outcome.HELD] * 6),
        (0.0, -0.2, [*[Outcome.FAILED] * 4, Outcome.HELD, Outcome.FAILED]),
        (-0.2, 0.2, [*[Outcome.HELD] * 4, Outcome.FAILED, Outcome.HELD]),
    ],
)
def test_verdicts_follow_the_numbers(gap: float, to_rivals: float, outcomes: list[Outcome]) -> None:
    found = words.verdict(_result(gap, to_rivals))
    assert [verdict.outcome for verdict in found] == outcomes
    assert f"perplexity {100 * (np.exp(gap) - 1):+.1f}" in found[0].effect
