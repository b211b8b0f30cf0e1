import dataclasses
import itertools
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import wassloss as wl
from experiments.corpora.synthetic import random_histograms, random_metric
from experiments.figures.bound import project
from experiments.figures.mnist import digit_cost
from experiments.figures.relaxed import count_iterations
from experiments.lab.experiment import Outcome
from experiments.lab.page import render_page
from experiments.registry import EXPERIMENTS
from experiments.run import run_experiment
from tests.experiments.tiny import SETTINGS
from tests.sampling import one_in

pytest.importorskip("matplotlib")


NEEDED = {
    "boosting": ("ordinal",),
    "mnist": ("mnist",),
    "published": ("ldl",),
    "hierarchy": ("flickr8k", "wordnet"),
    "relaxed-tags": ("flickr8k", "glove"),
    "words": ("wordnet", "glove"),
}


def _missing(name: str) -> list[str]:
    folder = os.environ.get("WASSLOSS_DATA")
    needed = NEEDED.get(name, ())
    return [each for each in needed if folder is None or not (Path(folder) / each).is_dir()]


@pytest.fixture(scope="module", params=one_in(2, sorted(SETTINGS)))
def result(request, tmp_path_factory):
    if missing := _missing(request.param):
        pytest.skip(f"{' and '.join(missing)} is not in $WASSLOSS_DATA")
    if request.param == "boosting":
        pytest.importorskip("lightgbm")
    folder = tmp_path_factory.mktemp(request.param)
    experiment = EXPERIMENTS[request.param]
    return run_experiment(experiment, folder, settings=SETTINGS[request.param]), folder


def test_a_result_holds_all_it_depends_on(result) -> None:
    read, folder = result
    name = read["experiment"]
    settings = json.loads(json.dumps(dataclasses.asdict(SETTINGS[name])))
    assert read["settings"] == settings
    assert {"seed", "seeds"} & set(settings)
    assert {"python", "torch", "wassloss"} <= set(read["versions"])
    assert read["machine"]["cores"] >= 1
    assert read["seconds"]["this run"] > 0
    assert read == json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    assert not (folder / ".parts").exists(), "parts are removed once the whole is written"


def test_figures_are_drawn_from_json_alone(result) -> None:
    read, folder = result
    name = read["experiment"]
    figures = EXPERIMENTS[name].draw(read)
    assert figures
    for figure, drawn in figures.items():
        assert (folder / f"{name}-{figure}.png").read_bytes().startswith(b"\x89PNG")
        for ax in drawn.axes:
            assert ax.get_title()
            assert ax.get_xlabel()
            assert ax.get_ylabel()


def test_verdicts_say_something_in_words_and_numbers(result) -> None:
    read, _ = result
    verdicts = EXPERIMENTS[read["experiment"]].verdict(read)
    for verdict in verdicts:
        assert verdict.claim
        assert isinstance(verdict.outcome, Outcome)
        assert any(c.isdigit() for c in verdict.effect)
        assert verdict.words.endswith(".")
    page = render_page({read["experiment"]: read}, EXPERIMENTS)
    assert "data:image/png;base64," in page
    # Its letters may spell anything.
    assert "http" not in re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", page)


def test_the_same_settings_give_the_same_numbers() -> None:
    experiment, settings = EXPERIMENTS["bound"], SETTINGS["bound"]
    assert experiment.compute(settings, None) == experiment.compute(settings, None)


def test_lattice_verdicts_follow_the_numbers() -> None:
    experiment = EXPERIMENTS["lattice"]
    runs = [
        {"side": side, "noise": noise, "seed": seed, "loss": loss, "train_exact_loss": 1.0,
         "distance": {"kl": 1.0, "smoothed": 0.5, "exact": 2.0, "exact_from_kl": 1.5 - noise}[loss]
         + 0.001 * seed * len(loss)}
        for side in (3, 4) for noise in (0.1, 0.9) for seed in (0, 1, 2)
        for loss in ("kl", "smoothed", "exact", "exact_from_kl")
    ]  # fmt: skip
    chosen = {"epsilon": 1.0, "penalty": 0.0}
    tuned = {str(side): {"smoothed": chosen, "kl": chosen} for side in (3, 4)}
    found = {"settings": {"sides": [3, 4], "noises": [0.1, 0.9]},
             "found": {"runs": runs, "tuned": tuned}}  # fmt: skip
    outcomes = [verdict.outcome for verdict in experiment.verdict(found)]
    assert outcomes == [Outcome.HELD, Outcome.FAILED, Outcome.PARTLY]


def test_iterations_are_counted_as_by_algorithm_one() -> None:
    metric = random_metric(32, seed=0)
    h, y = (random_histograms(3, 32, seed=seed) for seed in (1, 2))
    strength, gamma, tol = 20.0, 1.0, 1e-3
    kernel = torch.exp(-strength * metric.cost() - 1)
    counts = count_iterations(h, y, kernel, gamma * strength, False, tol, 1000)
    for i, count in enumerate(counts):
        u = [
            wl.solve(h[i], y[i], metric, epsilon=1 / strength, gamma=gamma, scaling_iterations=n).f
            for n in (count - 2, count - 1, count)
        ]
        u = [(strength * each).exp() for each in u]
        change = [float((b - a).norm() / a.norm()) for a, b in itertools.pairwise(u)]
        assert change[1] <= tol < change[0]


def test_counting_gives_up() -> None:
    h = random_histograms(2, 8)
    kernel = torch.exp(-random_metric(8).cost())
    assert count_iterations(h, h.flip(1), kernel, 1.0, True, 0.0, 7) == [7, 7]


def test_projected_weights_are_the_nearest_of_their_norm() -> None:
    theta = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    projected = project(theta, 1.0)
    lengths = theta.norm(dim=1)
    assert bool((projected.norm(dim=1) <= 1 + 1e-6).all())
    kept = (lengths <= 1).unsqueeze(1).expand_as(theta)
    assert torch.equal(projected[kept], theta[kept])


@pytest.mark.parametrize("power", [0.0, 0.5, 3.0])
def test_costs_of_digits_are_the_papers_metric_scaled(power) -> None:
    places = np.arange(10)
    distance = np.abs(places[:, None] - places)
    expected = np.where(distance > 0, (distance / 10.0) ** power, 0.0)
    np.testing.assert_allclose(digit_cost(power).numpy(), expected, rtol=1e-6)
