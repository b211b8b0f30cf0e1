"""Networks: what does a Wasserstein loss change, with its default strengths and tuned?

*Untouched* compares the loss's default with cross-entropy under the same optimiser; *candidates*
does the same for other settings that might become the default. *Tuned* gives every loss the same
number of trials, chosen on validation data by the distance of the first guess at no less accuracy
than cross-entropy's, and again by the label of least expected cost. *Carried* trains the settings
chosen with few images on all of them. Seeds split the data outside the test part, initialise the
weights and order the examples. `python -m experiments.studies.networks` computes parts of it within
a given time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.lab.cache import Cache
from experiments.lab.experiment import Experiment, Outcome, Result, Verdict
from experiments.lab.intervals import mean_interval
from experiments.lab.labelled import each_set
from experiments.lab.networks.losses import FAMILIES, families_for
from experiments.lab.networks.pieces import LEAST_COST, PAIRED
from experiments.lab.networks.scoring import LARGER_IS_BETTER
from experiments.lab.networks.tasks import Kind, load_task
from experiments.lab.networks.trials import (
    SLACK,
    Job,
    Run,
    Trial,
    behind,
    choose,
    differences,
    draw_trials,
    ridge,
    run_all,
)
from experiments.lab.style import COLORS, finish, new_figure, state_sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RIDGE = "ridge"
DECISIONS = ("", LEAST_COST)
EDGE = 30.0  # per cent; worse values are drawn at this edge
LONG = {"tiny-imagenet-450": "tiny-imagenet-50"}  # a minute per run on an H200
# The best with few images, without the debiased loss, whose steps take three times as long.
CARRIED = ("ce", "expected", "w-soft")
# Not tuned on tasks with few trials: losses whose steps take several times as long, special cases.
NOT_IN_BRIEF = ("w-debiased", "w-debiased-soft", "w-product", "w-plain")


def setting(epsilon: float, alpha: float, power: float) -> Trial:
    """W + KL at strengths that do not change with the default."""
    return Trial("w", (("epsilon", epsilon), ("alpha", alpha), ("power", power)))


SQUARED = setting(0.2, 0.5, 2.0)
CANDIDATES = {
    f"{epsilon:g} {alpha:g} {power:g}": setting(epsilon, alpha, power)
    for epsilon, alpha, power in (
        *((0.2, 0.5, 1.0), (0.2, 0.25, 1.0), (0.1, 0.3, 1.0)),
        *((0.2, 0.5, 2.0), (0.2, 0.35, 2.0), (0.1, 0.5, 2.0)),
    )
}
TITLES = {
    "distance": "mean distance",
    "right": "accuracy",
    "auc": "AUC",
    "nll": "negative log-likelihood",
}


@dataclass(frozen=True)
class Settings:
    """Sizes.

    Attributes:
        tasks: tasks that losses are tuned on.
        images: tasks that losses are tuned on with 3 trials and 3 seeds; they need a GPU.
        untouched: further tasks, on which only the default is compared with cross-entropy.
        brief: tasks that losses not in `NOT_IN_BRIEF` are tuned on with 6 trials and 3 seeds.
        carried: tasks on which losses are trained as tuned on a smaller one.
        trials: number of trials per family.
        seeds: number of seeds for the chosen trials.
    """

    tasks: tuple[str, ...] = (
        *("definitions-3000", "definitions-3000-paths", "definitions-10000"),
        *("abalone", "boston", "california", "cement", "machine", "stock", "digits", "grades"),
        *("s-jaffe", "s-bu-3dfe", "emotion6", "fg-net", "yeast-alpha", "yeast-cdc", "yeast-spo"),
        *("clipart", "digits-linear", "grades-linear"),
    )
    images: tuple[str, ...] = ("tiny-imagenet-50",)
    untouched: tuple[str, ...] = (
        *("tiny-imagenet-450", "definitions-10000-paths", "definitions-40000-paths"),
    )
    brief: tuple[str, ...] = (
        *("definitions-40000", "definitions-transformer", "clipart-linear"),
        *("flickr8k", "flickr8k-linear", "delicious", "delicious-linear"),
    )
    carried: tuple[str, ...] = tuple(LONG)
    trials: int = 8
    seeds: int = 5


Go = Callable[[Sequence[Job]], list[Run]]


def compute(settings: Settings, cache: Cache | None = None) -> dict[str, Any]:
    """Compare the default with cross-entropy, and every tuned loss, on each task."""
    cache = cache or Cache()
    both = (*settings.images, *settings.tasks, *settings.brief)
    everywhere = (*both, *settings.untouched)
    untouched = each_set(everywhere, cache, partial(_untouched, settings), "untouched ")
    tuned = each_set(both, cache, partial(tune, settings), "tuned ")
    there = [name for name in settings.carried if LONG[name] in tuned]
    carried = each_set(there, cache, partial(_carried, settings, tuned), "carried ")
    tried = each_set(everywhere, cache, partial(try_candidates, settings), "candidates ")
    return {"untouched": untouched, "tuned": tuned, "carried": carried, "candidates": tried}


def seeds_of(settings: Settings, name: str) -> range:
    """The seeds for scores on test data; three for tasks that take long."""
    few = name in (*settings.images, *settings.brief) or name in LONG
    return range(1, 1 + (min(settings.seeds, 3) if few else settings.seeds))


def _untouched(settings: Settings, name: str) -> dict[str, Any]:
    seeds = min(settings.seeds, 3) if name in LONG else settings.seeds
    trials = {"ce": Trial("ce"), "default": Trial("default")}
    runs = _of_seeds(name, trials, range(1, 1 + seeds), run_all)
    return {**facts(name), **summary(runs, [("default", "ce")])}


def try_candidates(settings: Settings, name: str, go: Go | None = None) -> dict[str, Any]:
    """Compare settings that might become the default with cross-entropy, same optimiser."""
    seeds = min(settings.seeds, 3) if name in LONG else settings.seeds
    runs = _of_seeds(name, {"ce": Trial("ce"), **CANDIDATES}, range(1, 1 + seeds), go or run_all)
    return {**facts(name), **summary(runs, [(entry, "ce") for entry in CANDIDATES])}


def drawn(
    settings: Settings, name: str, kind: Kind, families: Sequence[str] = ()
) -> dict[str, list[Trial]]:
    """The trials of the given families on a task; by default, of all that apply to it."""
    brief = name in settings.brief
    left_out = ("default", *(NOT_IN_BRIEF if brief else ()))
    suit = {k: v for k, v in families_for(kind).items() if k not in left_out}
    named = [k for k in suit if not families or k in families]
    few = 3 if name in settings.images else 6 if brief else settings.trials
    count = min(few, settings.trials)
    return {key: draw_trials(key, suit[key], count) for key in named}


def validations(name: str, trials: Mapping[str, Sequence[Trial]]) -> list[Job]:
    """The jobs by which trials are chosen."""
    return [Job(name, trial, 0, "validation") for each in trials.values() for trial in each]


def chosen_of(
    trials: Mapping[str, Sequence[Trial]], runs: Mapping[str, Sequence[Run]]
) -> dict[str, Trial]:
    """The chosen trial of each family and decision, at no less accuracy than cross-entropy."""
    decisions = [d for d in DECISIONS if f"{d}distance" in runs["ce"][0].names]
    best = min(runs["ce"], key=lambda run: run.mean("distance"))
    return {
        _entry(key, decision): choose(trials[key], runs[key], decision, best)
        for key in trials
        for decision in decisions
    }


def tune(
    settings: Settings, name: str, go: Go | None = None, families: Sequence[str] = ()
) -> dict[str, Any]:
    """Each family's best trial, scored on test data, and its differences from ours."""
    kind, go = load_task(name, 0).kind, go or run_all
    trials = drawn(settings, name, kind, families)
    found = iter(go(validations(name, trials)))
    runs = {key: [next(found) for _ in each] for key, each in trials.items()}
    chosen = chosen_of(trials, runs)
    scored = _of_seeds(name, chosen, seeds_of(settings, name), go)
    if kind == "ordered" and not families:
        scored[RIDGE] = [ridge(name, seed) for seed in seeds_of(settings, name)]
    return {
        **facts(name),
        "chosen": {entry: trial.as_json() for entry, trial in chosen.items()},
        "validation": {key: [run.mean("distance") for run in each] for key, each in runs.items()},
        "validated": validated(
            {
                entry: runs[trial.family][trials[trial.family].index(trial)]
                for entry, trial in chosen.items()
            }
        ),
        **summary(scored, compared(scored)),
    }


def validated(runs: Mapping[str, Run]) -> dict[str, dict[str, float]]:
    """Validation scores of choices: distance, and how far behind cross-entropy otherwise."""
    return {
        entry: {
            "distance": run.mean(f"{_decision(entry)}distance"),
            "behind": behind(run, runs["ce"]),
        }
        for entry, run in runs.items()
    }


def compared(entries: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs of entries to compare: ours with all others, and those with cross-entropy."""
    entries = list(entries)
    ours = [entry for entry in entries if entry != RIDGE and FAMILIES[_family(entry)].ours]
    others = [entry for entry in entries if entry not in ours]
    pairs = [(a, b) for a in ours for b in others if _decision(a) == _decision(b)]
    pairs += [(entry, _entry("ce", _decision(entry))) for entry in others if entry != RIDGE]
    return [(a, b) for a, b in pairs if a != b]


def _carried(settings: Settings, tuned: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The best losses as tuned on the smaller task, and the default's strengths with power 2."""
    trials = carried_trials(tuned[LONG[name]]["chosen"])
    runs = _of_seeds(name, trials, seeds_of(settings, name), run_all)
    return {
        **facts(name),
        "chosen": {entry: trial.as_json() for entry, trial in trials.items()},
        **summary(runs, [(entry, "ce") for entry in trials if entry != "ce"]),
    }


def carried_trials(chosen: Mapping[str, Any]) -> dict[str, Trial]:
    """The trials for all images: those chosen with few, and two fixed settings."""
    trials = {family: Trial.from_json(chosen[family]) for family in CARRIED}
    rate, decay = trials["ce"].rate, trials["ce"].decay
    rated = replace(setting(0.2, 0.5, 1.0), rate=rate, decay=decay)
    return trials | {"squared": SQUARED, "rated": rated}


def _of_seeds(
    name: str, trials: Mapping[str, Trial], seeds: Sequence[int], go: Go
) -> dict[str, list[Run]]:
    """Train each entry once per seed; equal trials are trained once."""
    distinct = list(dict.fromkeys(trials.values()))
    found = go(scorings(name, distinct, seeds))
    by_trial = {trial: found[i :: len(distinct)] for i, trial in enumerate(distinct)}
    return {entry: by_trial[trial] for entry, trial in trials.items()}


def scorings(name: str, trials: Iterable[Trial], seeds: Iterable[int]) -> list[Job]:
    """The jobs that score trials on test data, by seed; equal trials once."""
    distinct = list(dict.fromkeys(trials))
    return [Job(name, trial, seed) for seed in seeds for trial in distinct]


def facts(name: str) -> dict[str, Any]:
    """Describe a task."""
    task = load_task(name, 1)
    sizes = {part: len(getattr(task, part)) for part in ("train", "validation", "test")}
    return {"kind": task.kind, "labels": task.metric.size, "sizes": sizes, "grave": task.grave}


def summary(runs: Mapping[str, Sequence[Run]], pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Scores per seed, time per step, and differences."""
    names = [name for name in next(iter(runs.values()))[0].names if name != "calibration"]
    scores = {
        entry: {
            name: [round(run.mean(name), 6) for run in each]
            for name in names
            if name in each[0].names
        }
        for entry, each in runs.items()
    }
    for entry, each in runs.items():
        errors = [round(run.ece, 6) for run in each if run.ece is not None]
        if errors:
            scores[entry]["ece"] = errors
    return {
        "scores": scores,
        "milliseconds": {
            entry: round(float(np.median([run.milliseconds for run in each])), 3)
            for entry, each in runs.items()
        },
        "differences": differences(runs, pairs, [name for name in names if name in PAIRED]),
    }


def _entry(family: str, decision: str) -> str:
    return f"{decision}{family}"


def _family(entry: str) -> str:
    return entry.removeprefix(LEAST_COST)


def _title(family: str) -> str:
    return "ridge regression, rounded" if family == RIDGE else FAMILIES[family].title


def _decision(entry: str) -> str:
    return LEAST_COST if entry.startswith(LEAST_COST) else ""


def by_kind(found: Mapping[str, Any]) -> dict[str, Any]:
    """Sort tasks by kind: taxonomies, ordered labels, distributions, tags."""
    kinds = ("taxonomy", "ordered", "distribution", "tags")
    return dict(sorted(found.items(), key=lambda item: kinds.index(item[1]["kind"])))


def draw(result: Result) -> dict[str, Figure]:
    """Draw the default against cross-entropy, and the distance of every tuned loss."""
    return {"untouched": _draw_untouched(result), "tuned": _draw_tuned(result)}


def _draw_untouched(result: Result) -> Figure:
    found = by_kind(result["found"]["untouched"])
    figure, axes = new_figure(1, 3, (13.5, 1.2 + 0.3 * len(found)))
    panels = (("distance",), ("right", "auc"), ("nll",))
    for ax, names in zip(axes[0], panels, strict=True):
        for row, of_task in enumerate(found.values()):
            name = next((n for n in names if n in of_task["scores"]["ce"]), None)
            if name is None:
                continue
            reference = float(np.mean(of_task["scores"]["ce"][name]))
            gap = of_task["differences"]["default − ce"][name]
            low, mean, high = (100 * gap[k] / abs(reference) for k in ("low", "mean", "high"))
            good = (mean > 0) == (name in LARGER_IS_BETTER)
            clear = low > 0 or high < 0
            color = "#777777" if not clear else COLORS[2] if good else COLORS[1]
            ax.plot([low, high], [row, row], color=color, linewidth=2)
            ax.plot([mean], [row], color=color, marker="o", markersize=5)
        ax.axvline(0, color="#444444", linewidth=0.8)
        ax.set_yticks(range(len(found)), list(found), fontsize=8)
        ax.set_ylim(len(found) - 0.5, -0.5)
        better = "more is better" if names[0] in LARGER_IS_BETTER else "less is better"
        title = " or ".join(TITLES[name] for name in names)
        finish(ax, title, f"% of cross-entropy's ({better})", "", legend=False)
        ax.tick_params(axis="y", labelleft=names[0] == "distance")
    state_sizes(
        figure,
        f"{result['mode']}: untouched default of WassersteinLoss minus cross-entropy, same "
        f"optimiser; up to {result['settings']['seeds']} seeds; lines: 95 % intervals; green: "
        "better",
    )
    return figure


def _draw_tuned(result: Result) -> Figure:
    found = by_kind(result["found"]["tuned"])
    figure, axes = new_figure(1, len(DECISIONS), (13.5, 1.5 + 0.35 * len(found)))
    for ax, decision in zip(axes[0], DECISIONS, strict=True):
        for row, of_task in enumerate(found.values()):
            name = f"{decision}distance"
            if name not in of_task["scores"]["ce"]:
                continue
            reference = float(np.mean(of_task["scores"][_entry("ce", decision)][name]))
            best = _best_of_ours(of_task, decision)
            for entry, scores in of_task["scores"].items():
                if _decision(entry) != decision or _family(entry) == "ce":
                    continue
                ours = entry != RIDGE and FAMILIES[_family(entry)].ours
                change = 100 * (float(np.mean(scores[name])) / reference - 1)
                ax.plot(
                    [min(change, EDGE)],
                    [row],
                    color=COLORS[0] if ours else COLORS[1],
                    marker="o" if ours else "s",
                    markersize=5,
                    alpha=0.8,
                )
                if entry == best:
                    ring = {"markerfacecolor": "none", "markeredgecolor": "#222222"}
                    ax.plot([min(change, EDGE)], [row], marker="o", markersize=9, **ring)
        ax.axvline(0, color="#444444", linewidth=0.8)
        ax.set_yticks(range(len(found)), list(found), fontsize=8)
        ax.set_ylim(len(found) - 0.5, -0.5)
        title = "least expected cost, for all" if decision else "most probable label"
        finish(ax, title, "distance, % of cross-entropy's (less is better)", "", legend=False)
        ax.tick_params(axis="y", labelleft=not decision)
    state_sizes(
        figure,
        f"{result['mode']}: up to {result['settings']['trials']} trials per loss and "
        f"{result['settings']['seeds']} seeds; circles: Wasserstein losses, the one chosen on "
        f"validation data in a ring; squares: others; {EDGE:g} % and worse at the border",
    )
    return figure


def verdict(result: Result) -> list[Verdict]:
    """Compare the default with cross-entropy, and tuned Wasserstein losses with all others."""
    untouched, tuned = result["found"]["untouched"], result["found"]["tuned"]
    scores = [
        score
        for score in ("distance", "nll", "right", "auc")
        if any(score in of["scores"]["ce"] for of in untouched.values())
    ]
    found = [_verdict_of_default(untouched, score) for score in scores]
    return [*found, *(_verdict_of_tuned(tuned, decision) for decision in DECISIONS)]


def _verdict_of_default(found: Mapping[str, Any], name: str) -> Verdict:
    gaps = {
        task: of["differences"]["default − ce"][name]
        for task, of in found.items()
        if name in of["differences"]["default − ce"]
    }
    sign = -1 if name in LARGER_IS_BETTER else 1
    better = [task for task, gap in gaps.items() if max(sign * gap["low"], sign * gap["high"]) < 0]
    worse = [task for task, gap in gaps.items() if min(sign * gap["low"], sign * gap["high"]) > 0]
    relative = [
        100 * gaps[task]["mean"] / abs(float(np.mean(found[task]["scores"]["ce"][name])))
        for task in gaps
    ]
    wanted = len(better) == len(gaps) if name == "distance" else not worse
    return Verdict(
        f"the untouched default is better than cross-entropy in {TITLES[name]}"
        if name == "distance"
        else f"the untouched default is not worse than cross-entropy in {TITLES[name]}",
        Outcome.HELD if wanted else Outcome.PARTLY if len(better) > len(worse) else Outcome.FAILED,
        f"better outside the interval on {len(better)} of {len(gaps)} sets, worse on {len(worse)}; "
        f"median change {np.median(relative):+.1f} %",
        f"Worse: {', '.join(worse) or 'none'}. Better: {', '.join(better) or 'none'}.",
    )


def _best_of_ours(of: Mapping[str, Any], decision: str) -> str:
    """The Wasserstein loss that validation data would choose, by the rule for trials."""
    families = [_family(entry) for entry in of["chosen"] if _decision(entry) == decision]
    ours = [_entry(family, decision) for family in families if FAMILIES[family].ours]
    found = of["validated"]
    return min(ours, key=lambda entry: (found[entry]["behind"], found[entry]["distance"]))


def standings(found: Mapping[str, Any], decision: str) -> dict[str, dict[str, Any]]:
    """For each task, the best Wasserstein loss and the rivals nearer by more than the interval.

    Rivals at cross-entropy's accuracy are `ahead`, those below it `below`. `gaps` are the scores of
    our loss minus those of cross-entropy, the `reference`; `held` is whether our loss is as
    accurate and none is ahead. Least-cost decisions trade accuracy for distance on purpose, so
    there all count as ahead.
    """
    score, standing = f"{decision}distance", {}
    for task, of in by_kind(found).items():
        if score not in of["scores"]["ce"]:
            continue
        ours, reference = _best_of_ours(of, decision), _entry("ce", decision)
        rivals = [
            rival
            for rival in of["scores"]
            if _decision(rival) == decision
            and (rival == RIDGE or not FAMILIES[_family(rival)].ours)
        ]
        nearer = [r for r in rivals if of["differences"][f"{ours} − {r}"][score]["low"] > 0]
        below = [rival for rival in nearer if not decision and _less_accurate(of, rival)]
        ahead = [rival for rival in nearer if rival not in below]
        standing[task] = {
            "ours": ours,
            "ahead": [_family(rival) for rival in ahead],
            "below": [_family(rival) for rival in below],
            "gaps": of["differences"][f"{ours} − {reference}"],
            "reference": of["scores"][reference],
            "held": not ahead and (bool(decision) or not _less_accurate(of, ours)),
        }
    return standing


def _less_accurate(of: Mapping[str, Any], entry: str) -> bool:
    """Whether accuracy or AUC is below cross-entropy's, outside the interval, by more than allowed.

    The allowance is that for choices on validation data.
    """
    name = next((n for n in ("right", "auc") if n in of["scores"]["ce"]), None)
    if name is None or entry == "ce":
        return False
    gap = of["differences"].get(f"{entry} − ce", {}).get(name)
    if gap is None:
        seeds = np.subtract(of["scores"][entry][name], of["scores"]["ce"][name])
        gap = mean_interval(seeds)._asdict()
    return bool(gap["high"] < 0 and gap["mean"] < -SLACK[name])


def _verdict_of_tuned(found: Mapping[str, Any], decision: str) -> Verdict:
    """Whether no rival is nearer than our loss, at cross-entropy's accuracy."""
    standing = standings(found, decision)
    score, lines, misses = f"{decision}distance", [], []
    for task, of in standing.items():
        change = 100 * of["gaps"][score]["mean"] / float(np.mean(of["reference"][score]))
        lines.append(f"{task} {FAMILIES[_family(of['ours'])].title} {change:+.1f} %")
        if not of["held"]:
            names = ", ".join(map(_title, of["ahead"])) or "less accurate than cross-entropy"
            misses.append(f"{task}: {names}")
    held, count = len(standing) - len(misses), len(standing)
    level = sum(not of["ahead"] for of in standing.values())
    also = "" if decision else f", and itself as accurate as cross-entropy on {held} of them"
    how = "with the label of least expected cost for all" if decision else "at no less accuracy"
    return Verdict(
        f"no other tuned loss is ahead of a Wasserstein loss in distance, {how}",
        Outcome.HELD
        if held >= 0.9 * count
        else Outcome.PARTLY
        if 2 * held >= count
        else Outcome.FAILED,
        f"none ahead outside the interval on {level} of {count} sets{also}",
        f"Against cross-entropy: {', '.join(lines)}. Exceptions: {'; '.join(misses) or 'none'}.",
    )


EXPERIMENT = Experiment(
    name="networks",
    title="Networks: the default, and every loss tuned",
    claim="with networks a Wasserstein loss makes milder mistakes at no loss of accuracy",
    figure="beyond the paper",
    quick=Settings(
        ("definitions-3000", "cement"),
        images=(),
        untouched=("digits",),
        brief=(),
        carried=(),
        trials=3,
        seeds=2,
    ),
    full=Settings(),
    compute=compute,
    draw=draw,
    verdict=verdict,
)
