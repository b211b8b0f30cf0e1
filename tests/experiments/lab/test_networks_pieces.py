"""Trainings stored one by one, run within a given time, and merged into a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.figures import networks as figure
from experiments.lab.networks.crew import Crew, Foreman, Plan, _Worker
from experiments.lab.networks.pieces import Pieces, described, understood
from experiments.lab.networks.tasks import TASKS, kind_of, load_task
from experiments.lab.networks.trials import Job, Run, Trial
from experiments.studies import networks as study

SETTINGS = figure.Settings((), (), (), (), carried=(), trials=2, seeds=2)
TASK = "grades-linear"


def found(shift: float = 0.0, examples: int = 50) -> Run:
    x = np.random.default_rng(0).random(examples)
    names = ("right", "distance", "nll", "least cost: distance", "least cost: right", "rps")
    return Run({name: x + shift for name in names}, 2.0, 0.1)


def test_a_piece_says_what_was_found(tmp_path: Path) -> None:
    pieces, job = Pieces(tmp_path / "new"), Job("cement", figure.setting(0.2, 0.35, 2.0), 1)
    assert pieces.find(job) is None
    pieces.keep(job, found())
    read = pieces.find(job)
    assert read is not None
    assert read.mean("rps") == found().mean("rps")  # only its mean is stored
    assert "rps" not in read.scores
    np.testing.assert_allclose(read.scores["nll"], found().scores["nll"], rtol=1e-6)
    assert (read.milliseconds, read.ece) == (2.0, 0.1)
    assert list(pieces.all()) == [job]
    assert pieces.find(Job("cement", Trial("w"), 1)) is None
    assert understood(described(job, read))[0] == job


def test_scores_for_choosing_need_no_examples(tmp_path: Path) -> None:
    pieces, job = Pieces(tmp_path), Job("cement", Trial("ce"), 0, "validation")
    pieces.keep(job, found())
    read = pieces.find(job)
    assert read is not None
    assert not read.scores
    assert read.mean("distance") == found().mean("distance")


def test_pieces_travel_in_few_archives(tmp_path: Path) -> None:
    pieces = Pieces(tmp_path / "here")
    jobs = [Job("cement", Trial("ce"), seed) for seed in range(5)]
    for job in jobs:
        pieces.keep(job, found())
    packed = pieces.pack(tmp_path / "out", most=10_000)
    assert 1 < len(packed) < 5
    assert [path.name for path in packed[:2]] == ["pieces-0.tar", "pieces-1.tar"]
    there = Pieces(tmp_path / "there")
    there.unpack(packed)
    assert set(there.all()) == set(jobs)


@pytest.mark.slow
def test_jobs_are_done_once_and_then_the_next(tmp_path: Path) -> None:
    first = Job(TASK, Trial("ce"), 1)
    second = Job(TASK, figure.setting(0.2, 0.5, 1.0), 1)
    wrong = Job("nothing", Trial("ce"), 1)
    asked: list[Mapping[Job, Run]] = []

    def then(done: Mapping[Job, Run]) -> list[Job]:
        asked.append(dict(done))
        return [second]

    plans = [Plan("first", "cpu", [first], then), Plan("wrong", "cpu", [wrong])]
    lines: list[str] = []
    foreman = Foreman(Pieces(tmp_path), {"cpu": Crew(1)}, lines.append)
    assert foreman.work(plans, 120) == 0
    assert set(Pieces(tmp_path).all()) == {first, second}
    assert list(asked[0]) == [first]
    assert "name must be one of" in foreman.failed[wrong]
    assert "failed" in lines[0]
    again = Foreman(Pieces(tmp_path), {"cpu": Crew(1)}, lines.append)
    assert again.work(plans[:1], 0.001) == 0  # all are done


def test_nothing_is_begun_when_the_time_is_up(tmp_path: Path) -> None:
    foreman = Foreman(Pieces(tmp_path), {"cpu": Crew(1)}, print)
    assert foreman.work([Plan("one", "cpu", [Job(TASK, Trial("ce"), 1)])], 0.0) == 1


def test_a_crew_holds_back_while_another_works() -> None:
    crews = {"long": Crew(1), "short": Crew(3, beside={"long": 1})}
    foreman = Foreman(Pieces(Path()), crews, print)
    job = Job(TASK, Trial("ce"), 1)
    long = _Worker("long", None, None, job)
    short = [_Worker("short", None, None) for _ in range(3)]
    workers = [long, *short]
    assert foreman._may_begin(short[0], workers)
    short[0].job = job
    assert not foreman._may_begin(short[0], workers)
    assert not foreman._may_begin(short[1], workers)
    long.job = None
    assert foreman._may_begin(short[1], workers)
    assert foreman._may_begin(long, workers)


def test_tasks_of_few_trials_have_as_many_for_every_loss() -> None:
    drawn = figure.drawn(figure.Settings(), "flickr8k", "tags")
    assert {len(trials) for trials in drawn.values()} == {6}
    assert set(figure.families_for("tags")) - set(drawn) == {"default", *figure.NOT_IN_BRIEF}
    assert list(figure.seeds_of(figure.Settings(), "flickr8k")) == [1, 2, 3]
    assert drawn["w"] == figure.drawn(figure.Settings(), "clipart", "tags")["w"][:6]


@pytest.mark.parametrize("name", ["grades", "digits-linear", "definitions-3000", "clipart"])
def test_the_kind_of_a_task(name: str) -> None:
    assert kind_of(name) == load_task(name, 0).kind


def test_every_task_has_a_kind() -> None:
    assert all(kind_of(name) for name in TASKS)


def test_plans_ask_for_no_job_twice_in_two_queues() -> None:
    queues: dict[Job, set[str]] = {}
    for plan in study.plans():
        for job in plan.jobs:
            queues.setdefault(job, set()).add(plan.queue)
    assert all(len(each) == 1 for each in queues.values())
    assert {plan.queue for plan in study.plans()} == set(study.CREWS)


def test_rates_of_cross_entropy_are_those_that_were_chosen() -> None:
    chosen = {
        k: {"family": k, "strengths": {}, "rate": 0.4834, "decay": 4.026} for k in figure.CARRIED
    }
    assert figure.carried_trials(chosen)["rated"] == study.RATED


def made_pieces(families: tuple[str, ...]) -> dict[Job, Run]:
    trials = figure.drawn(SETTINGS, TASK, "ordered", families)
    pieces = {job: found(0.01 * i) for i, job in enumerate(figure.validations(TASK, trials))}
    scored = study.scored(SETTINGS, TASK, trials, pieces)
    return pieces | {job: found(0.02 * i) for i, job in enumerate(scored)}


def test_pieces_are_added_to_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "SETTINGS", SETTINGS)
    result = {"found": {"untouched": {}, "tuned": {}, "carried": {}}}
    pieces = made_pieces(("ce", "soft", "w"))
    for i, trial in enumerate((Trial("ce"), *figure.CANDIDATES.values())):
        pieces |= {Job(TASK, trial, seed): found(0.01 * i * seed) for seed in (1, 2)}
    added = study.merge(pieces, result)
    assert [line.partition(":")[0] for line in added] == [
        f"candidates {TASK}",
        f"tuned {TASK}",
        f"untouched {TASK}",
    ]
    untouched = result["found"]["untouched"][TASK]
    assert list(untouched["scores"]) == ["ce", "default"]
    assert list(untouched["differences"]) == ["default − ce"]
    candidates = result["found"]["candidates"][TASK]
    assert list(candidates["scores"]) == ["ce", *figure.CANDIDATES]
    gap = candidates["differences"]["0.2 0.5 1 − ce"]["distance"]
    assert gap["mean"] == pytest.approx(0.015, rel=1e-4)
    tuned = result["found"]["tuned"][TASK]
    assert {"ce", "soft", "w"} <= set(tuned["scores"])
    assert "w − soft" in tuned["differences"]

    later = made_pieces(("ce", "w-soft"))  # a new loss; the others are no longer available
    before = tuned["scores"]["ce"]
    study.merge(later, result)
    tuned = result["found"]["tuned"][TASK]
    assert tuned["scores"]["ce"] == before
    assert set(tuned["differences"]["w-soft − soft"]["distance"]) == {"mean", "low", "high"}
    outcome = figure.verdict({"found": {**result["found"], "untouched": {}}})
    assert "of 1 sets" in outcome[-1].effect


def test_choices_are_validated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "SETTINGS", SETTINGS)
    result = {"found": {"untouched": {}, "tuned": {}, "carried": {}}}
    pieces = made_pieces(("ce", "soft", "w"))
    study.merge(pieces, result)
    of = result["found"]["tuned"][TASK]
    made = of.pop("validated")
    assert set(made) == set(of["chosen"])
    assert made["ce"]["behind"] == 0
    plan = next(p for p in study.plans(result) if p.name == f"validated {TASK}")
    study.merge({job: pieces[job] for job in plan.jobs}, result)
    assert of["validated"] == made
    assert not any(p.name == f"validated {TASK}" for p in study.plans(result))


def test_a_set_of_few_trials_may_have_two_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(SETTINGS, brief=(TASK,), seeds=3)
    monkeypatch.setattr(study, "SETTINGS", settings)
    trials = figure.drawn(settings, TASK, "ordered", ("ce", "soft", "w"))
    pieces = {job: found(0.01 * i) for i, job in enumerate(figure.validations(TASK, trials))}
    jobs = study.scored(settings, TASK, trials, pieces)
    pieces |= {job: found(0.02 * i) for i, job in enumerate(jobs)}
    result = {"found": {"untouched": {}, "tuned": {}, "carried": {}}}
    study.merge(pieces, result)
    assert len(result["found"]["tuned"][TASK]["scores"]["w"]["distance"]) == 3
    result["found"]["tuned"].clear()
    study.merge({job: run for job, run in pieces.items() if job.seed < 3}, result)
    assert len(result["found"]["tuned"][TASK]["scores"]["w"]["distance"]) == 2


@pytest.mark.slow
def test_an_idle_crew_takes_the_jobs_of_another(tmp_path: Path) -> None:
    job = Job(TASK, Trial("ce"), 1)
    crews = {"gpu": Crew(1, also=("cpu",)), "cpu": Crew(0)}
    foreman = Foreman(Pieces(tmp_path), crews, print)
    assert foreman.work([Plan("one", "cpu", [job])], 120) == 0
    assert set(Pieces(tmp_path).all()) == {job}
