"""Compute parts of the experiment `networks` within a given time, on a GPU and many cores.

Every training is stored in its own file, and the same command resumes where the last one stopped;
the order below sets the priorities. To continue on another machine, pass the last one's
`about.json` as `--known`.

    python -m experiments.studies.networks check flickr8k delicious
    python -m experiments.studies.networks run PIECES --seconds 500 --out ARCHIVES
    python -m experiments.studies.networks merge PIECES docs/results/networks.json ARCHIVE ...

`merge` adds the pieces to a result of `python -m experiments networks`. The interval of a
difference is over examples and seeds if both sides are in the pieces, and over seeds alone if one
is only in the result.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from experiments.figures import networks as figure
from experiments.figures.networks import CANDIDATES, LONG, Settings
from experiments.lab.compact_json import write_json
from experiments.lab.intervals import mean_interval
from experiments.lab.networks.crew import Crew, Foreman, Plan
from experiments.lab.networks.fitting import fit
from experiments.lab.networks.losses import FAMILIES
from experiments.lab.networks.pieces import PAIRED, Pieces, described, understood
from experiments.lab.networks.scoring import score
from experiments.lab.networks.tasks import kind_of, load_task
from experiments.lab.networks.trials import Job, Run, Trial
from experiments.lab.provenance import machine, versions

SETTINGS = Settings()
# Processes take turns on a GPU: a network for images fills it, small networks use a part of it.
CREWS = {
    "long": Crew(1, gpu=True),
    "gpu": Crew(12, gpu=True, beside={"long": 4}, also=("cpu",)),
    "cpu": Crew(11),
    "later": Crew(1, gpu=True, beside={"long": 0, "gpu": 0}),
}
ALL, TRANSFORMER = "tiny-imagenet-450", "definitions-transformer"
TAGS = ("delicious-linear", "flickr8k-linear", "clipart-linear")
# The exact distances in most of their scores need POT; those on a line do not.
EXACT = importlib.util.find_spec("ot") is not None
DISTRIBUTIONS = (
    *("s-jaffe", "s-bu-3dfe", "emotion6"),
    *("yeast-alpha", "yeast-cdc", "yeast-spo", "fg-net"),
)
# With all images, the most promising settings first, seed after seed.
FIRST = ("0.2 0.35 2",)
SECOND = ("0.1 0.3 1", "0.2 0.25 1")
DEFAULT = "0.2 0.5 1"  # among the candidates
# The settings chosen for cross-entropy with few images.
RATED = Trial("w", CANDIDATES["0.2 0.5 1"].strengths, 0.4834, 4.026)


def candidates(name: str, queue: str) -> Plan:
    """All settings that might become the default, and cross-entropy, seed after seed."""
    seeds = range(1, 1 + (3 if name in LONG else SETTINGS.seeds))
    trials = [Trial("ce"), *CANDIDATES.values()]
    return Plan(f"candidates {name}", queue, figure.scorings(name, trials, seeds))


def tuned(name: str, queue: str, families: Sequence[str] = ()) -> Plan:
    """Tune the given families of a task; by default, all that apply to it."""
    trials = figure.drawn(SETTINGS, name, kind_of(name), families)
    return Plan(
        f"tuned {name}",
        queue,
        figure.validations(name, trials),
        partial(scored, SETTINGS, name, trials),
    )


def scored(
    settings: Settings,
    name: str,
    trials: Mapping[str, Sequence[Trial]],
    done: Mapping[Job, Run],
) -> list[Job]:
    """Score on test data what was chosen on validation data."""
    found = (done[job] for job in figure.validations(name, trials))
    runs = {key: [next(found) for _ in each] for key, each in trials.items()}
    chosen = figure.chosen_of(trials, runs)
    return figure.scorings(name, chosen.values(), figure.seeds_of(settings, name))


def untouched(name: str, queue: str) -> Plan:
    """The default and cross-entropy."""
    trials = [Trial("ce"), CANDIDATES[DEFAULT]]
    return Plan(f"untouched {name}", queue, figure.scorings(name, trials, range(1, 6)))


def all_images(names: Iterable[str], queue: str, also: Sequence[Trial] = ()) -> Plan:
    """Candidates with 450 images per class, seed after seed."""
    trials = [*(CANDIDATES[name] for name in names), *also]
    return Plan("candidates of all images", queue, figure.scorings(ALL, trials, (1, 2, 3)))


def validated(name: str, queue: str, chosen: Mapping[str, Any]) -> Plan:
    """Score the choices of a task on validation data again, to choose among Wasserstein losses."""
    trials = dict.fromkeys(map(Trial.from_json, chosen.values()))
    jobs = [Job(name, trial, 0, "validation") for trial in trials]
    return Plan(f"validated {name}", queue, jobs)


def _validated(tuned: Mapping[str, Any]) -> list[Plan]:
    """Tasks whose result lacks the validation scores of their choices."""
    return [
        validated(name, "gpu" if name in SETTINGS.images else "cpu", of["chosen"])
        for name, of in tuned.items()
        if "validated" not in of and name not in SETTINGS.brief
        if EXACT or of["kind"] != "distribution"
    ]


def plans(result: Mapping[str, Any] | None = None) -> list[Plan]:
    """All remaining plans, the most valuable first in each queue."""
    return [
        all_images(FIRST, "long"),
        untouched("delicious-linear", "gpu"),
        *(tuned(name, "gpu") for name in ("delicious", "flickr8k", TRANSFORMER, *TAGS)),
        tuned("definitions-40000", "cpu"),
        *_validated(result["found"]["tuned"] if result else {}),
        *(candidates(name, "gpu") for name in ("delicious", "delicious-linear")),
        *(candidates(name, "cpu") for name in DISTRIBUTIONS if EXACT),
        *(all_images([name], "later") for name in SECOND),
        all_images((), "later", [Trial("ce"), RATED]),
    ]


def run(
    folder: Path,
    *,
    seconds: float,
    out: Path | None,
    crews: Mapping[str, Crew],
    tasks: Sequence[str] = (),
    known: Path | None = None,
    result: Mapping[str, Any] | None = None,
) -> int:
    """Run plans, by default of all tasks; return the number of jobs left."""
    began, pieces = time.monotonic(), Pieces(folder)
    asked = [
        plan
        for plan in plans(result)
        if plan.queue in crews and (not tasks or plan.jobs[0].task in tasks)
    ]
    before: dict[Job, Run] = {}
    if known is not None:
        read = json.loads(known.read_text(encoding="utf-8"))["known"]
        before = dict(understood(about) for about in read)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    foreman = Foreman(pieces, crews, say, before)

    def pack() -> None:
        if out is not None:
            pieces.pack(out)

    left = foreman.work(asked, seconds - (time.monotonic() - began), pack)
    pack()
    if out is not None:
        about = {"machine": machine(), "versions": versions(), "left": left}
        about["failed"] = {str(job): why for job, why in foreman.failed.items()}
        about["known"] = [described(job, found) for job, found in (before | pieces.all()).items()]
        write_json(out / "about.json", about, digits=None)
    return left


def check(name: str, batches: int = 30) -> None:
    """Print the times of a few steps with each loss of a task, of its data and of its scores."""
    began = time.perf_counter()
    torch.set_num_threads(1)
    task, said = load_task(name, 1), []
    loaded = time.perf_counter() - began
    rows = torch.arange(min(len(task.train), batches * task.recipe.batch))
    task = replace(task, train=task.train.rows(rows), recipe=replace(task.recipe, epochs=1))
    start, scoring = time.perf_counter(), 0.0
    for key, trials in figure.drawn(SETTINGS, name, task.kind).items():
        fitted = fit(task, FAMILIES[key].build(task, dict(trials[0].strengths)), 1)
        began = time.perf_counter()
        score(task, task.test, FAMILIES[key].probabilities(fitted.test))
        scoring = time.perf_counter() - began
        said.append(f"{key} {fitted.milliseconds:.1f}")
    took = f"data {loaded:.1f} s, scores {scoring:.1f} s, all {time.perf_counter() - start:.1f} s"
    print(f"{name}: {took}; milliseconds per step: {', '.join(said)}", flush=True)


def merge(pieces: Mapping[Job, Run], result: dict[str, Any]) -> list[str]:
    """Add pieces to a result; return what was added."""
    found, added = result["found"], []
    tasks = dict.fromkeys(job.task for job in pieces)
    for name in tasks:
        tried = _candidates_of(name, pieces, found)
        if tried is not None:
            found.setdefault("candidates", {})[name] = tried
            added.append(f"candidates {name}: {', '.join(tried['scores'])}")
        families, settings = _tuned_in(name, pieces)
        if families:
            every = len(families) == len(figure.drawn(SETTINGS, name, kind_of(name)))
            asked = () if every else families
            new = figure.tune(settings, name, lambda jobs: [pieces[job] for job in jobs], asked)
            old = found["tuned"].get(name)
            found["tuned"][name] = new if old is None else _joined(old, new)
            added.append(f"tuned {name}: {', '.join(families)}")
    for name, of in found["tuned"].items():
        trials = {entry: Trial.from_json(each) for entry, each in of["chosen"].items()}
        jobs = {entry: Job(name, trial, 0, "validation") for entry, trial in trials.items()}
        if "validated" not in of and all(job in pieces for job in jobs.values()):
            of["validated"] = figure.validated({entry: pieces[job] for entry, job in jobs.items()})
            added.append(f"validated {name}")
    for name, of in found.get("candidates", {}).items():
        if name not in found["untouched"] and {"ce", DEFAULT} <= set(of["scores"]):
            found["untouched"][name] = _as_untouched(of)
            added.append(f"untouched {name}")
    rated = {seed: pieces.get(Job(ALL, RATED, seed)) for seed in (1, 2, 3)}
    if ALL in found["carried"] and all(rated.values()):
        of = found["carried"][ALL]
        runs = {"rated": [run for run in rated.values() if run is not None]}
        new = {"chosen": {"rated": RATED.as_json()}, **figure.summary(runs, [])}
        found["carried"][ALL] = _joined(of, {**of, **new}, [("rated", "ce")])
        added.append(f"carried {ALL}: rated")
    return added


def _candidates_of(
    name: str, pieces: Mapping[Job, Run], found: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The settings whose seeds are complete."""
    seeds = range(1, 1 + (3 if name in LONG else SETTINGS.seeds))
    whole = {
        entry: [pieces[Job(name, trial, seed)] for seed in seeds]
        for entry, trial in {"ce": Trial("ce"), **CANDIDATES}.items()
        if all(Job(name, trial, seed) in pieces for seed in seeds)
    }
    if set(whole) <= {"ce"}:
        return None
    pairs = [(entry, "ce") for entry in whole if entry != "ce" and "ce" in whole]
    own = {**figure.facts(name), **figure.summary(whole, pairs)}
    if name in LONG:  # what was run before, with the same seeds
        before = {"ce": found["untouched"][name]["scores"]["ce"]}
        before["0.2 0.5 1"] = found["untouched"][name]["scores"]["default"]
        before["0.2 0.5 2"] = found["carried"][name]["scores"]["squared"]
        own["scores"] = {**before, **own["scores"]}
        pairs = [(entry, "ce") for entry in own["scores"] if entry != "ce"]
        own["differences"] = _over_seeds(own["scores"], pairs) | own["differences"]
    return own


def _as_untouched(of: Mapping[str, Any]) -> dict[str, Any]:
    """Cross-entropy and the default, from the candidates that include them."""
    names = {"ce": "ce", DEFAULT: "default"}
    parts = {
        part: {new: of[part][old] for old, new in names.items()}
        for part in ("scores", "milliseconds")
    }
    return {**of, **parts, "differences": {"default − ce": of["differences"][f"{DEFAULT} − ce"]}}


def _tuned_in(name: str, pieces: Mapping[Job, Run]) -> tuple[list[str], Settings]:
    """The families for which all runs, and those of cross-entropy, are complete.

    A set of few trials has two seeds if more families are complete with two than with three.
    """
    trials = figure.drawn(SETTINGS, name, kind_of(name))
    there = {
        key: each
        for key, each in trials.items()
        if all(job in pieces for job in figure.validations(name, {key: each}))
    }
    if "ce" not in there:
        return [], SETTINGS

    def whole(settings: Settings) -> list[str]:
        pairs = {key: {"ce": there["ce"], key: each} for key, each in there.items()}
        needed = {key: scored(settings, name, both, pieces) for key, both in pairs.items()}
        return [key for key, jobs in needed.items() if all(job in pieces for job in jobs)]

    fewer = [replace(SETTINGS, seeds=2)] if name in SETTINGS.brief else []
    found = [(whole(settings), settings) for settings in (SETTINGS, *fewer)]
    families, settings = max(found, key=lambda pair: len(pair[0]))
    return (families if set(families) > {"ce"} else []), settings


def _joined(
    old: Mapping[str, Any], new: Mapping[str, Any], pairs: Sequence[tuple[str, str]] = ()
) -> dict[str, Any]:
    """Merge two results of a task; new entries replace old ones.

    Cross-entropy keeps its old entry, so that rows agree. New runs are paired with its new ones,
    example by example, if its choice is the same.
    """
    reference = {entry for entry in old["scores"] if entry.endswith("ce")}
    joined = {
        part: old.get(part, {}) | {k: v for k, v in new.get(part, {}).items() if k not in reference}
        for part in ("chosen", "validation", "validated", "scores", "milliseconds")
    }
    other = {e for e in reference if new["chosen"].get(e) != old["chosen"].get(e)}
    paired = {
        pair: gaps
        for pair, gaps in new["differences"].items()
        if pair.partition(" − ")[2] not in other
    }
    scores = joined["scores"]
    changed = set(new["scores"]) - reference
    missing = [
        (a, b)
        for a, b in list(pairs) or figure.compared(scores)
        if f"{a} − {b}" not in paired
        and (a in changed or b in changed or f"{a} − {b}" not in old["differences"])
    ]
    differences = {**old["differences"], **_over_seeds(scores, missing), **paired}
    return {**old, **joined, "differences": differences}


def _over_seeds(
    scores: Mapping[str, Any], pairs: Iterable[tuple[str, str]]
) -> dict[str, dict[str, dict[str, float]]]:
    """Differences between runs of the same seed, with Student's interval of their mean."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for own, other in pairs:
        names = [n for n in PAIRED if n in scores[own] and n in scores[other]]
        found[f"{own} − {other}"] = {
            name: mean_interval(
                [a - b for a, b in zip(scores[own][name], scores[other][name], strict=True)]
            )._asdict()
            for name in names
        }
    return found


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parts = parser.add_subparsers(dest="verb", required=True)
    running = parts.add_parser("run", help="run the jobs that are not in the folder")
    running.add_argument("pieces", type=Path)
    running.add_argument("--seconds", type=float, default=500.0)
    running.add_argument("--out", type=Path, help="folder for archives of all pieces")
    running.add_argument("--known", type=Path, help="about.json of an earlier run")
    running.add_argument("--result", type=Path, help="networks.json, to validate what it chose")
    running.add_argument("--tasks", nargs="*", default=[], help="only these")
    for queue, crew in CREWS.items():
        running.add_argument(f"--{queue}", type=int, default=crew.workers, metavar="WORKERS")
    running.add_argument("--list", action="store_true", help="only print the jobs")
    checking = parts.add_parser("check", help="train each loss for a few steps, and time it")
    checking.add_argument("tasks", nargs="+")
    merging = parts.add_parser("merge", help="add pieces to a result")
    merging.add_argument("pieces", type=Path)
    merging.add_argument("result", type=Path)
    merging.add_argument("archives", nargs="*", type=Path)
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    """Run or merge."""
    arguments = _arguments(given)
    if arguments.verb == "merge":
        pieces = Pieces(arguments.pieces)
        pieces.unpack(arguments.archives)
        result = json.loads(arguments.result.read_text(encoding="utf-8"))
        result["settings"] = asdict(SETTINGS)
        for line in merge(pieces.all(), result):
            print(line)
        write_json(arguments.result, result)
        return
    if arguments.verb == "check":
        with ProcessPoolExecutor(
            len(arguments.tasks), multiprocessing.get_context("spawn")
        ) as pool:
            list(pool.map(check, arguments.tasks))
        return
    result = arguments.result and json.loads(arguments.result.read_text(encoding="utf-8"))
    if arguments.list:
        for plan in plans(result):
            print(f"{plan.queue:5} {len(plan.jobs):4} {plan.name}")
        return
    crews = {
        queue: replace(crew, workers=getattr(arguments, queue))
        for queue, crew in CREWS.items()
        if getattr(arguments, queue)
    }
    left = run(
        arguments.pieces,
        seconds=arguments.seconds,
        out=arguments.out,
        crews=crews,
        tasks=arguments.tasks,
        known=arguments.known,
        result=result,
    )
    print(f"{left} jobs are left")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # exit immediately, without waiting for workers
