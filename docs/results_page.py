"""Write the tables of results, defaults and published rows from the JSON files in docs/results.

`python docs/results_page.py --write` updates the pages; without `--write` it checks that they are
up to date.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from math import exp
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from experiments.figures.networks import CANDIDATES, DECISIONS, RIDGE, by_kind, standings
from experiments.figures.published import PUBLISHED
from experiments.figures.words import BY_MEAN, CE, CRITERIA, UNTOUCHED
from experiments.lab.experiment import Result
from experiments.lab.intervals import mean_interval
from experiments.lab.networks.losses import FAMILIES
from experiments.lab.verdict_text import interval, mean_of
from experiments.registry import EXPERIMENTS
from experiments.run import load_results
from experiments.studies import defaults

FOLDER = Path(__file__).parent / "results"
PAGES = (
    FOLDER / "README.md",
    FOLDER.parent / "defaults.md",
    FOLDER.parent / "guides" / "networks.md",
    FOLDER.parent / "published.md",
    FOLDER.parent / "guides" / "language-models.md",
)
# For each experiment, its heading, question and answer; those of the paper first.
OVERVIEW = {
    "tags": (
        "Proposing tags",
        "Does W + α KL propose better tags than KL?",
        "**Yes, tuned**, on Flickr8k and Delicious; **in the paper's setting** only on Flickr8k "
        "with all tags",
    ),
    "tradeoff": (
        "The weight of the KL term",
        "Is the best α for cost smaller than the best α for AUC?",
        "**Yes**, on all training sets and for all seeds",
    ),
    "lattice": (
        "Noisy labels on a lattice",
        "Is a Wasserstein loss more robust to label noise?",
        "**No**: it is level with a tuned KL, and learns faster",
    ),
    "mnist": (
        "The power of the ground metric on MNIST",
        "Does `power` control how predictions spread?",
        "**Yes** with the smoothed loss, in part with the exact loss",
    ),
    "relaxed": (
        "Relaxed transport",
        "Does it converge, and how fast?",
        "**Yes**; iterations grow slowly with the number of labels",
    ),
    "bound": (
        "The statistical bounds",
        "Do Theorem 5.1 and Proposition 5.2 hold?",
        "**Yes**, but they are too large to be used as numbers",
    ),
    "networks": (
        "Networks",
        "Beyond the paper: is the untouched default better than cross-entropy?",
        "**Yes on all taxonomies**, at no less accuracy anywhere; not with linear models of tags",
    ),
    "frontier": (
        "Other losses and decisions",
        "Is any other loss better, with the same tuning?",
        "No on Flickr8k and Delicious; on clip art and the lattice, KL on softened labels is",
    ),
    "limits": (
        "Subtracting a regression of the cost",
        "What does a decision gain without a new loss?",
        "About as much as the best loss",
    ),
    "ordinal": (
        "Ordered labels",
        "Are grades predicted better?",
        "Yes, but KL with `least_cost_label` gains more",
    ),
    "boosting": (
        "Boosted trees",
        "Does LightGBM gain from the Wasserstein objective?",
        "A little: nearer and likelier on all six sets, outside the interval in distance on one",
    ),
    "numbers": (
        "Numbers in language models",
        "Are the numbers in a language model's answers more accurate?",
        "**Yes, by a large margin** for tokens of several digits; not clearly for single digits",
    ),
    "words": (
        "Words in language models",
        "Are the words that a language model predicts nearer to the true ones?",
        "**Hardly**: the first word by 0.4 %, five words by 1 %, at 19 to 43 % more perplexity; a "
        "decision on top of cross-entropy gains as much",
    ),
    "hierarchy": ("A taxonomy", "Are labels of a tree predicted better?", "No clear difference"),
    "missing": (
        "Missing tags",
        "Does it help if tags are missing?",
        "Yes on Flickr8k, and more so if more are missing; no on clip art",
    ),
    "relaxed-tags": (
        "Counts as masses",
        "Does the relaxed loss predict counts better?",
        "Better than Poisson regression; models for shares and totals are better still",
    ),
}
# Rows of the page on networks.
EXPECTED = {
    "tiny-imagenet-450": "Tiny ImageNet, 450 images per class, ResNet-18",
    "tiny-imagenet-50": "Tiny ImageNet, 50 images per class, ResNet-18",
    "definitions-transformer": "10 000 definitions of WordNet, transformer",
    "definitions-3000": "3000 definitions, bag of words",
    "definitions-40000": "40 000 definitions, bag of words",
    "california": "California housing, 6 ordered labels, perceptron",
    "grades": "patients' grades, 10 ordered labels, perceptron",
}
# Accuracy, distance@1, @5 and @20 and severity, as Karthik et al. (2021) print them.
BETTER_MISTAKES = {
    ("tieredImageNet-H", "cross-entropy"): (0.688, 2.20, 5.65, 7.08, 7.06),
    ("tieredImageNet-H", "cross-entropy, least cost (CRM)"): (0.687, 2.19, 4.96, 6.12, 7.00),
    ("tieredImageNet-H", "HXE, α = 0.1"): (0.687, 2.19, 5.60, 6.99, 6.99),
    ("iNaturalist19", "cross-entropy"): (0.597, 0.959, 1.84, 2.84, 2.38),
    ("iNaturalist19", "cross-entropy, least cost (CRM)"): (0.595, 0.950, 1.39, 1.91, 2.34),
}
MARKED = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->\n)", flags=re.DOTALL)


def page(path: Path) -> str:
    """A page with each of its marked tables updated."""
    results = load_results(FOLDER)
    text = path.read_text(encoding="utf-8")
    return MARKED.sub(lambda m: f"{m[1]}{table(m[2], results)}{m[3]}", text)


def table(name: str, results: Mapping[str, Result]) -> str:
    """One passage by its name: an overview, or the table of an experiment."""
    if name == "summary":
        return summary(results)
    if name == "overview":
        return overview(results)
    if name == "networks-expected":
        return untouched(results["networks"], EXPECTED)
    if name == "limits":
        return limits()
    if name == "defaults":
        sets = json.loads((FOLDER / "defaults.json").read_text(encoding="utf-8"))["sets"]
        return markdown(*defaults.table(sets))
    if name.startswith("published-"):
        return published(name.removeprefix("published-"), results)
    if name == "words-scores":
        return words_scores(results["words"])
    if name == "origins":
        return origins(results)
    if name.startswith("networks-"):
        of_networks = {
            "untouched": untouched,
            "mistakes": mistakes,
            "tuned": tuned,
            "carried": carried,
            "all-images": all_images,
            "candidates": candidates,
            "standings": networks_standings,
        }
        return of_networks[name.removeprefix("networks-")](results["networks"])
    special = {
        "tags": tags,
        "frontier": frontier,
        "missing": missing,
        "tradeoff": tradeoff,
        "boosting": boosting,
    }
    return special.get(name, claims)(name, results[name])


def summary(results: Mapping[str, Result]) -> str:
    """What was found, in five sentences."""
    found = results["networks"]["found"]["untouched"]
    gaps = {name: of["differences"]["default − ce"]["distance"] for name, of in found.items()}
    trees = [
        100 * gaps[name]["mean"] / fmean(of["scores"]["ce"]["distance"])
        for name, of in found.items()
        if of["kind"] == "taxonomy"
    ]
    better = sum(gap["high"] < 0 for gap in gaps.values())
    worse = sum(gap["low"] > 0 for gap in gaps.values())
    tagged = [
        100
        * of["differences"]["nearest_softened"]["kl"]["cost"]["mean"]
        / mean_of(of["scores"]["kl"], "cost")
        for versions in results["tags"]["found"]["sets"].values()
        for of in versions.values()
    ]
    alphas, lattice, grades = (
        EXPERIMENTS[name].verdict(results[name]) for name in ("tradeoff", "lattice", "ordinal")
    )
    sentences = (
        "With networks on taxonomies, swapping cross-entropy for the default loss makes mistakes "
        f"{-max(trees):.0f} to {-min(trees):.0f} % milder, with nothing tuned.",
        f"Of all {len(found)} data sets, linear models and tags included, it is better on "
        f"{better} and worse on {worse}, outside the 95 % interval.",
        f"Proposing tags, the best Wasserstein loss has {-max(tagged):.0f} to {-min(tagged):.0f} % "
        "less cost than an equally tuned KL, and gains most if examples have only few of their "
        "tags.",
        "Of the paper's other claims, the trade-off in the weight of KL held on all "
        f"{len(alphas)} training sets, and robustness to label noise did not: the loss is "
        f"{lattice[0].effect.partition(';')[0]}.",
        "Decisions matter as much as losses: on patients' grades the loss gains "
        f"{grades[0].effect.rpartition('(')[2].strip('-%)')} %, and a KL model that predicts "
        "the label of least expected cost gains more.",
    )
    return "".join(f"- {sentence}\n" for sentence in sentences)


def overview(results: Mapping[str, Result]) -> str:
    rows = []
    for name, (heading, question, answer) in OVERVIEW.items():
        anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        outcomes = _outcomes(EXPERIMENTS[name].verdict(results[name])) if name in results else ""
        rows.append([f"[{heading}](#{anchor})", question, answer, outcomes])
    return markdown(["experiment", "question", "answer", "claims that held"], rows)


def _outcomes(verdicts: Any) -> str:
    counts = Counter(v.outcome.value for v in verdicts)
    words = {"held": "held", "held in part": "in part", "did not hold": "not"}
    return ", ".join(f"{counts[key]} {word}" for key, word in words.items() if counts[key])


def claims(name: str, result: Result) -> str:
    rows = [[v.claim, v.outcome.value, v.effect] for v in EXPERIMENTS[name].verdict(result)]
    return markdown(["claim", "outcome", "effect"], rows)


def tradeoff(name: str, result: Result) -> str:
    rows = [
        [v.claim.partition(":")[0], v.effect, v.words] for v in EXPERIMENTS[name].verdict(result)
    ]
    return markdown(["data set", "best α", "trade-off"], rows)


def boosting(_: str, result: Result) -> str:
    """Mean distance, accuracy and likelihood by set and decision, cross-entropy → W + KL."""
    rows = []
    for name, own in result["found"].items():
        means = own["means"]
        for decision in ("most probable", "least cost"):
            theirs, ours = (
                means[f"{loss}, {decision}"] for loss in ("cross-entropy", "wasserstein")
            )
            gap = own["gaps"][f"wasserstein, {decision}"]
            rows.append(
                [
                    f"{name}, {own['labels']} labels",
                    decision,
                    f"{theirs['distance']:.3f} → {ours['distance']:.3f}",
                    interval(gap),
                    f"{100 * theirs['right']:.1f} → {100 * ours['right']:.1f}",
                    f"{theirs['kappa']:.3f} → {ours['kappa']:.3f}",
                    f"{theirs['nll']:.3f} → {ours['nll']:.3f}",
                    f"{means['regression']['distance']:.3f}" if decision == "least cost" else "",
                ]
            )
    names = ["data set", "label", "mean distance", "difference", "% right", "kappa", "NLL"]
    return markdown([*names, "mean distance of a regression"], rows)


def words_scores(result: Result) -> str:
    """Means over seeds, by loss and by what it was chosen by."""
    found = result["found"]
    rows: dict[str, list[str]] = {}  # by loss and strength
    for family in found["seconds"]:
        for criterion, title in CRITERIA.items():
            chosen, runs = (found[part][criterion][family] for part in ("chosen", "scores"))
            loss = f"{family}, {chosen['strength']:g}" if chosen["strength"] else family
            if loss in rows:
                rows[loss][1] = "" if family == UNTOUCHED else "both"
                continue
            rows[loss] = [
                loss,
                title,
                f"{exp(mean_of(runs, 'nll')):.1f}",
                f"{exp(mean_of(runs, 'nll with a temperature')):.1f}",
                f"{100 * mean_of(runs, 'accuracy'):.1f} %",
                *(
                    f"{mean_of(runs, score):.4f}"
                    for score in ("distance", BY_MEAN, "distance of 5", "severity")
                ),
                f"{found['seconds'][family] / found['seconds'][CE]:.1f}",
            ]
    scores = ["perplexity", "with a temperature", "accuracy"]
    distances = ["mean distance", "… nearest to the mean", "… of five words", "… of mistakes"]
    head = ["loss, strength", "chosen by", *scores, *distances, "time per step"]
    return markdown(head, list(rows.values()))


def tags(_: str, result: Result) -> str:
    losses = {
        "W + α KL, tuned": ("wasserstein", "kl"),
        "W nearest + α KL on softened labels, tuned": ("nearest_softened", "kl"),
        "W + α KL, the paper's setting": ("paper", "paper_kl"),
    }
    rows = []
    for title, (loss, baseline) in losses.items():
        for name, versions in result["found"]["sets"].items():
            for version, found in versions.items():
                gap = found["differences"][loss][baseline]
                cost = percent(gap["cost"], mean_of(found["scores"][baseline], "cost"))
                kl = (mean_of(found["scores"][baseline], score) for score in ("cost", "auc"))
                rows.append([
                    title, f"{name}, {version}", " and ".join(f"{x:.4f}" for x in kl),
                    cost, interval(gap["auc"]),
                ])  # fmt: skip
    head = ["loss", "training tags", "cost and AUC of KL", "cost relative to KL", "AUC minus KL's"]
    return markdown(head, rows)


def frontier(name: str, result: Result) -> str:
    verdicts = EXPERIMENTS[name].verdict(result)  # against KL, then against the baselines
    rows = [
        [
            against_kl.claim.partition(":")[0],
            "subtracted" if "subtracted" in against_kl.claim else "",
            against_kl.effect,
            against_others.words.partition(" Not at")[0].removeprefix("Ahead: "),
        ]
        for against_kl, against_others in zip(verdicts[::2], verdicts[1::2], strict=True)
    ]
    head = [
        "data set",
        "regressed cost",
        "best Wasserstein loss against KL",
        "baselines ahead of it",
    ]
    return markdown(head, rows)


def missing(_: str, result: Result) -> str:
    losses = {
        "plan": "W + α KL", "product": "W, product, + α KL",
        "softened": "KL on softened labels", "expected": "expected cost + α KL",
    }  # fmt: skip
    rows = []
    for name, found in result["found"]["sets"].items():
        for rate, at_rate in zip(result["settings"]["rates"], found["rates"], strict=True):
            gaps = [at_rate["differences"][loss]["kl"]["cost"] for loss in losses]
            auc = at_rate["differences"]["plan"]["kl"]["auc"]["mean"]
            kl = mean_of(at_rate["scores"]["kl"], "cost")
            rows.append([
                f"{name}, {rate:.0%}", f"{kl:.4f}", *(interval(gap) for gap in gaps), f"{auc:+.4f}",
            ])  # fmt: skip
    head = ["tags left out", "cost of KL", *losses.values(), "AUC of W + α KL minus KL's"]
    return markdown(head, rows)


def untouched(result: Result, chosen: Mapping[str, str] | None = None) -> str:
    """The default against cross-entropy; bold where the interval excludes 0.

    `chosen` has the sets to show, with words for each; by default all are shown.
    """
    rows = []
    found = by_kind(result["found"]["untouched"])
    for name, words in (chosen or {name: name for name in found}).items():
        of = found[name]
        gaps, scores = of["differences"]["default − ce"], of["scores"]
        cells = [
            _change(gaps.get(score), fmean(scores["ce"][score]) if score in gaps else 0.0)
            for score in ("distance", "least cost: distance", "right", "auc", "nll")
        ]
        accuracy = cells[2] or (f"{cells[3]} (AUC)" if cells[3] else "")
        sizes = f"{of['labels']} labels, {of['sizes']['train']} examples"
        errors = [f"{fmean(scores[k]['ece']):.3f}" for k in ("ce", "default") if "ece" in scores[k]]
        shown = [words] if chosen else [words, sizes]
        rows.append([*shown, cells[0], cells[1], accuracy, cells[4], " → ".join(errors)])
    head = [
        *(["data"] if chosen else ["data", "size"]), "mean distance",
        "mean distance, least-cost decisions", "accuracy", "NLL",
        "calibration error",
    ]  # fmt: skip
    return markdown(head, rows)


def mistakes(result: Result) -> str:
    """How bad the default's mistakes are against cross-entropy's, where examples have one label."""
    rows = []
    for name, of in by_kind(result["found"]["untouched"]).items():
        gaps, scores = of["differences"]["default − ce"], of["scores"]
        if "right" not in gaps:
            continue
        # The distance of an answer is 0 if it is right, so this is the mean over wrong ones.
        severity = [
            fmean(scores[k]["distance"]) / (1 - fmean(scores[k]["right"]))
            for k in ("ce", "default")
        ]
        far = [fmean(scores[k].get("distance@20", [0.0])) for k in ("ce", "default")]
        rows.append(
            [
                name,
                _relative(*severity),
                _change(gaps["grave"], fmean(scores["ce"]["grave"])),
                _change(gaps.get("distance@5"), fmean(scores["ce"].get("distance@5", [0.0]))),
                _relative(*far),
                _change(gaps["least cost: right"], fmean(scores["ce"]["least cost: right"])),
            ]
        )
    head = ["data", "severity of mistakes", "grave mistakes", "distance@5", "distance@20"]
    return markdown([*head, "accuracy, least-cost decisions"], rows)


def _relative(base: float, value: float) -> str:
    return f"{100 * (value / base - 1):+.1f} %" if base else ""


def _change(gap: Mapping[str, float] | None, base: float) -> str:
    if gap is None or not base:
        return ""
    words = f"{100 * gap['mean'] / base:+.1f} %"
    return f"**{words}**" if gap["low"] * gap["high"] > 0 else words


def tuned(result: Result) -> str:
    """The distance of every loss relative to cross-entropy's, the most probable label predicted."""
    found = by_kind(result["found"]["tuned"])
    keys = list(dict.fromkeys(k for of in found.values() for k in of["scores"] if ":" not in k))
    titles = {k: _title(k) for k in keys if k != "ce"}
    rows = []
    for name, of in found.items():
        means = {k: fmean(scores["distance"]) for k, scores in of["scores"].items() if ":" not in k}
        changes = {k: mean / means["ce"] - 1 for k, mean in means.items() if k != "ce"}
        least = min(changes.values())
        cells = [
            "" if k not in changes
            else f"**{100 * changes[k]:+.1f}**" if changes[k] == least
            else f"{100 * changes[k]:+.1f}"
            for k in titles
        ]  # fmt: skip
        rows.append([name, *cells])
    return markdown(["%", *titles.values()], rows)


def networks_standings(result: Result) -> str:
    """The Wasserstein loss that validation data chose, and the rivals that are ahead of it."""
    by_decision = {
        decision: standings(result["found"]["tuned"], decision) for decision in DECISIONS
    }
    rows = []
    for name in by_kind(result["found"]["tuned"]):
        cells = []
        for decision, standing in by_decision.items():
            own = standing.get(name)
            if own is None:
                cells += [""] * 4
                continue
            distance, accuracy = (
                next((f"{decision}{s}" for s in scores if f"{decision}{s}" in own["gaps"]), None)
                for scores in (("distance",), ("right", "auc"))
            )
            changes = [
                _change(own["gaps"].get(score), fmean(own["reference"].get(score, [0.0])))
                for score in (distance, accuracy)
            ]
            rivals = [_title(k) for k in own["ahead"]] + [f"({_title(k)})" for k in own["below"]]
            loss = FAMILIES[own["ours"].removeprefix(decision)].title
            cells += [loss, *changes, ", ".join(rivals) or "none"]
        rows.append([name, *cells])
    standing = by_decision[""]
    level = [f"{sum(not o['ahead'] for o in s.values())} of {len(s)}" for s in by_decision.values()]
    held = f"{sum(own['held'] for own in standing.values())} of {len(standing)}"
    rows.append(["none ahead", "", "", "", level[0], "", "", "", level[1]])
    rows.append(["none ahead, and as accurate", "", "", "", held, "", "", "", ""])
    columns = ["loss", "mean distance", "accuracy or AUC", "rivals ahead"]
    return markdown(["data", *columns, *(f"least cost: {column}" for column in columns)], rows)


def _title(family: str) -> str:
    return family if family == RIDGE else FAMILIES[family].title


def candidates(result: Result) -> str:
    """Changes of mean distance, accuracy or AUC, and NLL with each candidate; counts of sets."""
    found = by_kind(result["found"]["candidates"])
    keys = [k for k in CANDIDATES if any(k in of["scores"] for of in found.values())]
    rows = []
    for name, of in found.items():
        cells = []
        for key in keys:
            gaps = of["differences"].get(f"{key} − ce", {})
            changes = [
                _change(gaps.get(score), fmean(of["scores"]["ce"][score]))
                for score in ("distance", "right", "auc", "nll")
                if score in gaps
            ]
            cells.append(" / ".join(changes))
        rows.append([name, *cells])
    for words, sign in (("better", -1), ("worse", 1)):
        rows.append([f"sets {words}", *(_counts(found, key, sign) for key in keys)])
    return markdown(["data", *(f"`{_setting(key)}`" for key in keys)], rows)


def _counts(found: Mapping[str, Any], key: str, sign: int) -> str:
    """How many sets a candidate is better or worse on outside the interval, score by score."""
    counts = []
    for scores, direction in ((("distance",), 1), (("right", "auc"), -1), (("nll",), 1)):
        gaps = [
            of["differences"][f"{key} − ce"][score]
            for of in found.values()
            for score in scores
            if score in of["differences"].get(f"{key} − ce", {})
        ]
        ends = [sorted((direction * gap["low"], direction * gap["high"])) for gap in gaps]
        clear = [high < 0 if sign < 0 else low > 0 for low, high in ends]
        counts.append(f"{sum(clear)} of {len(clear)}")
    return " / ".join(counts)


def _setting(key: str) -> str:
    """A candidate as keywords.

    >>> _setting("0.2 0.35 2")
    'epsilon=0.2, kl_weight=0.35, power=2'
    """
    names = ("epsilon", "kl_weight", "power")
    return ", ".join(f"{n}={v}" for n, v in zip(names, key.split(), strict=True))


def carried(result: Result) -> str:
    """The scores of what was tuned on a smaller set, below those of what was not tuned."""
    found, rows = result["found"], []
    for name, of in found["carried"].items():
        entries = {
            "cross-entropy": found["untouched"][name]["scores"]["ce"],
            "`WassersteinLoss(metric)`": found["untouched"][name]["scores"]["default"],
            "the same with `power=2`": of["scores"]["squared"],
        } | {
            f"{FAMILIES[k].title}, as tuned": scores
            for k, scores in of["scores"].items() if k in FAMILIES
        }  # fmt: skip
        if "rated" in of["scores"]:
            rates = "`WassersteinLoss(metric)`, as cross-entropy was tuned"
            entries[rates] = of["scores"]["rated"]
        entries |= {
            f"`{_setting(k)}`": scores
            for k, scores in found.get("candidates", {}).get(name, {"scores": {}})["scores"].items()
            if k in CANDIDATES and k not in ("0.2 0.5 1", "0.2 0.5 2")
        }
        for title, scores in entries.items():
            cells = [f"{fmean(scores[k]):.3f}" for k in ("distance", "distance@5", "nll", "ece")]
            rows.append([title, f"{100 * fmean(scores['right']):.1f} %", *cells])
    return markdown(["loss", "accuracy", "mean distance", "distance@5", "NLL", "ECE"], rows)


def all_images(result: Result) -> str:
    """With all images: changes against cross-entropy, untouched and tuned, seed by seed."""
    found, name = result["found"], "tiny-imagenet-450"
    tried, tuned = (found[part][name]["scores"] for part in ("candidates", "carried"))
    losses = {f"`{_setting(key)}`": tried[key] for key in CANDIDATES if key in tried}
    losses["expected cost + KL, as tuned"] = tuned["expected"]
    scores = ("distance", "distance@5", "right", "nll", "least cost: distance")
    rows = []
    for words, reference in (("untouched", tried["ce"]), ("tuned", tuned["ce"])):
        for title, own in losses.items():
            gaps = [
                mean_interval([a - b for a, b in zip(own[s], reference[s], strict=True)])
                for s in scores
            ]
            changes = [
                _change(gap._asdict(), fmean(reference[s]))
                for gap, s in zip(gaps, scores, strict=True)
            ]
            rows.append([words, title, *changes])
    head = ["cross-entropy", "loss", "mean distance", "distance@5", "accuracy", "NLL"]
    return markdown([*head, "mean distance, least-cost decisions"], rows)


def published(name: str, results: Mapping[str, Result]) -> str:
    """Rows that others printed, and ours below them."""
    if name == "taxonomies":
        return better_mistakes(results["networks"])
    if name == "numbers":
        return number_errors(results["numbers"])
    theirs, own = PUBLISHED[name], results["published"]["found"][name]
    scores = list(next(iter(theirs.values())))
    rows = []
    for method, values in theirs.items():
        rows.append([method, "published", *(f"{m:.3f} ± {d:.3f}" for m, d in values.values())])
    for method, values in own.items():
        cells = [f"{fmean(values[s]):.3f} ± {stdev(values[s]):.3f}" for s in scores]
        rows.append([method, "here", *cells])
    titles = ["mean absolute error" if s == "distance" else s.replace("_", " ") for s in scores]
    return markdown(["method", "row", *titles], rows)


def better_mistakes(networks: Result) -> str:
    rows = [
        [data, loss, "published", f"{100 * right:.1f} %", *(f"{each:.2f}" for each in rest)]
        for (data, loss), (right, *rest) in BETTER_MISTAKES.items()
    ]
    of = networks["found"]["untouched"]["tiny-imagenet-450"]["scores"]
    for key, loss in (("ce", "cross-entropy"), ("default", "`WassersteinLoss(metric)`")):
        for prefix, decision in (("", ""), ("least cost: ", ", least cost")):
            score = {
                name: fmean(of[key][prefix + name])
                for name in ("right", "distance", "distance@5", "distance@20")
            }
            right, *distances = score.values()
            severity = distances[0] / (1 - right)
            cells = [f"{each:.2f}" for each in (*distances, severity)]
            rows.append(
                ["Tiny ImageNet, 450", loss + decision, "here", f"{100 * right:.1f} %", *cells]
            )
    head = ["data", "loss", "row", "accuracy", "distance@1", "@5", "@20", "severity"]
    return markdown(head, rows)


def number_errors(numbers: Result) -> str:
    rows = []
    for task, of in numbers["found"].items():
        errors = (fmean(of["scores"][loss]["error"]) for loss in ("cross-entropy", "W"))
        rows.append([task, *(f"{error:.4f}" for error in errors)])
    return markdown(["task", "cross-entropy", "cross-entropy + W over number tokens"], rows)


def limits() -> str:
    """What subtracting a regression of the cost adds to KL; see `experiments/studies/limits.py`."""
    rows = []
    found = json.loads((FOLDER / "limits.json").read_text(encoding="utf-8"))["sets"]
    for name, versions in found.items():
        for version, each in versions.items():
            kl = mean_of(each["scores"]["kl"], "cost")
            cells = [f"{name}, {version}"]
            for rule in ("auc", "cost"):
                gap = each["differences"].get(rule)
                cells += [percent(gap["cost"], kl), interval(gap["auc"])] if gap else ["none", ""]
            rows.append(cells)
    head = ["training tags", "least cost at KL's AUC", "its AUC", "least cost", "its AUC"]
    return markdown(head, rows)


def origins(results: Mapping[str, Result]) -> str:
    rows = []
    for name, result in results.items():
        machine = result["machine"]
        command = result["command"].replace("wassloss reproduce", "python -m experiments")
        if "runs" in result or len(command) > 200:  # its JSON lists the runs or the settings
            command = f"see [`{name}.json`]({name}.json)"
        else:
            command = f"`{command}`"
        took = f"{result['seconds']['this run']:.0f} s"
        where = machine.get("gpu", machine["cpu"])
        rows.append([name, command, took, where, result["made"][:10]])
    return markdown(["experiment", "command", "time", "machine", "date"], rows)


def percent(gap: Mapping[str, float], base: float) -> str:
    """A difference with its interval, relative to `base`."""
    share = {key: value / base for key, value in gap.items()}
    return f"{share['mean']:+.1%} [{share['low']:+.1%}, {share['high']:+.1%}]"


def markdown(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    # A number and its % stay on one line.
    cells = (
        [str(cell).replace("|", "∣").replace(" %", "\u00a0%") for cell in line] for line in lines
    )
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


if __name__ == "__main__":
    for path in PAGES:
        if "--write" in sys.argv:
            path.write_text(page(path), encoding="utf-8")
        elif page(path) != path.read_text(encoding="utf-8"):
            sys.exit(f"{path} is not what its JSON says: run python docs/results_page.py --write")
