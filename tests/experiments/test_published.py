"""Published tables: the original splits, and verdicts that follow the numbers."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from experiments.corpora.orca import orca_splits
from experiments.figures import published
from experiments.lab.experiment import Outcome


@pytest.fixture
def orca(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write three splits of synthetic examples in ORCA's format."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "orca" / "tae" / "matlab"
    folder.mkdir(parents=True)
    for number in range(3):
        for part, rows in (("train", 60), ("test", 20)):
            x = rng.normal(size=(rows, 4))
            label = 1 + np.digitize(x[:, 0], [-0.5, 0.5])
            np.savetxt(folder / f"{part}_tae.{number}", np.column_stack([x, label]))
    monkeypatch.setenv("WASSLOSS_DATA", str(tmp_path))


@pytest.mark.usefixtures("orca")
def test_splits_are_read_in_orcas_format() -> None:
    splits = list(orca_splits("tae", 3))
    assert [split.x_train.shape for split in splits] == [(60, 4)] * 3
    assert set(splits[0].y_test.tolist()) == {0, 1, 2}
    with pytest.raises(FileNotFoundError, match=r"train_tae\.3"):
        list(orca_splits("tae", 4))


@pytest.mark.usefixtures("orca")
def test_every_method_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    names = published._ordinal_methods()
    assert {"W + KL", published.OURS["tae"], published.RIVAL["tae"]} <= names.keys()
    quick = dict.fromkeys(names, LogisticRegression)
    monkeypatch.setattr(published, "_ordinal_methods", lambda: quick)
    found = published.compute(published.Settings(sets=("tae",), splits=3))["tae"]
    assert found.keys() == names.keys()
    assert all(len(values["distance"]) == 3 for values in found.values())
    assert found["W + KL"]["distance"][0] < 0.3


def result(ours: float, theirs: float) -> dict:
    rng = np.random.default_rng(0)
    rows = {
        name: {"distance": (level + 0.02 * rng.random(30)).tolist()}
        for name, level in ((published.OURS["tae"], ours), (published.RIVAL["tae"], theirs))
    }
    return {"found": {"tae": rows}, "settings": {}}


@pytest.mark.parametrize(
    ("ours", "theirs", "outcomes"),
    [
        (0.3, 0.53, [Outcome.HELD, Outcome.HELD]),
        (0.53, 0.53, [Outcome.HELD, Outcome.FAILED]),
        (0.53, 0.1, [Outcome.FAILED, Outcome.FAILED]),
    ],
)
def test_verdicts_follow_the_numbers(ours: float, theirs: float, outcomes: list[Outcome]) -> None:
    found = published.verdict(result(ours, theirs))
    assert [verdict.outcome for verdict in found] == outcomes
    assert "(0.534 ± 0.109)" in found[0].effect
