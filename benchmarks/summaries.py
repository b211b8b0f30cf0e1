"""Short tables of whole suites, made from their JSON: results, and where wassloss is slower."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import goals
from contenders import GRAPH, OURS
from figures import duration, mark, median, number

Results = dict[str, Any]
LIBRARIES = ("POT", "OTT", "GeomLoss", "mdot-tnt", "FlashSinkhorn", "cuRegOT", "GEMM")
LARGEST_STEP = 2.0  # of the time, between neighbouring numbers of target labels


def of(results: Results) -> list[str]:
    """The tables above the rows of a suite's own page."""
    made = {"goals": [goals_table], "support": [support_table], "points": [points_table]}
    tables = ["\n".join(table(results)) for table in made.get(results["suite"], [])]
    lost = losses(results)
    title = "Where another library is faster at the tolerance:"
    return tables + (["\n".join([title, "", *lost])] if lost else [])


def goals_table(results: Results) -> list[str]:
    """The performance goals and the measured figures."""
    head = ["| work | before | goal | measured |", "| --- | --- | --- | --- |"]
    return head + [f"| {' | '.join(row)} |" for row in goals.rows(results)]


def support_table(results: Results) -> list[str]:
    """Times by number of target labels, and the largest step from one row to the next."""
    columns: dict[tuple[str, int, str], dict[int, dict[str, Any]]] = {}
    for group in results["groups"]:
        case = group["case"]
        for row in group["measurements"]:
            way = "graph" if GRAPH in row["contender"] else "launched"
            key = case["dtype"], case["batch"], way
            columns.setdefault(key, {})[case["support"]] = row
    measured = [key for key, rows in columns.items() if any(r["seconds"] for r in rows.values())]
    columns = {key: columns[key] for key in measured}
    supports = sorted({support for rows in columns.values() for support in rows})
    names = [f"{dtype}, B={batch}, {way}" for dtype, batch, way in columns]
    lines = [f"| labels per target | {' | '.join(names)} |", f"| --- {'| ---: ' * len(names)}|"]
    for support in supports:
        cells = [_cell(rows.get(support)) for rows in columns.values()]
        lines.append(f"| {support} | {' | '.join(cells)} |")
    steps = [_largest_step(rows) for rows in columns.values()]
    return [*lines, f"| largest step | {' | '.join(steps)} |"]


def _cell(row: dict[str, Any] | None) -> str:
    return duration(median(row)) if row and row["seconds"] else "not run"


def _largest_step(rows: dict[int, dict[str, Any]]) -> str:
    """The largest ratio of neighbouring times, and where it is; bold if it is too large."""
    times = [(support, median(row)) for support, row in sorted(rows.items()) if row["seconds"]]
    steps = [
        (after / before, f"{low} to {high}") for (low, before), (high, after) in pairwise(times)
    ]
    if not steps:
        return ""
    largest, where = max(steps)
    shown = f"{largest:.2g} × ({where})"
    return f"**{shown}**" if largest > LARGEST_STEP else shown


def points_table(results: Results) -> list[str]:
    """Times for one pair of point clouds, one row per library and one column per size."""
    lines: list[str] = []
    cases = [group["case"] for group in results["groups"]]
    for epsilon in sorted({case["epsilon"] for case in cases}, reverse=True):
        for dimensions in sorted({case["dimensions"] for case in cases}):
            groups = {
                group["case"]["labels"]: {row["contender"]: row for row in group["measurements"]}
                for group in results["groups"]
                if (group["case"]["epsilon"], group["case"]["dimensions"]) == (epsilon, dimensions)
            }
            if groups:
                lines += _points(groups, cases[0], epsilon, dimensions)
    return lines


def _points(
    groups: dict[int, dict[str, Any]], case: dict[str, Any], epsilon: float, dimensions: int
) -> list[str]:
    sizes = sorted(groups)
    names = list(dict.fromkeys(name for size in sizes for name in groups[size]))
    head = f"ε = {epsilon:g}, {dimensions} dimensions"
    lines = [
        f"| {head} | {' | '.join(f'{size:,} points'.replace(',', ' ') for size in sizes)} |",
        f"| --- {'| ---: ' * len(sizes)}|",
    ]
    for name in names:
        cells = []
        for size in sizes:
            row, own = groups[size].get(name), {**case, "labels": size}
            cells.append("" if row is None else _time_and_iterations(row, own))
        if any(cell not in ("", "not run") for cell in cells):
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, ""]


def _time_and_iterations(row: dict[str, Any], case: dict[str, Any]) -> str:
    if not row["seconds"]:
        needs = (row["not_run"] or "").startswith("needs")
        return str(row["not_run"]) if needs else "not run"
    above = "> " if row["stopped_after"] else ""
    count = "" if row.get("iterations") is None else f" ({row['iterations']})"
    return f"{above}{duration(median(row))}{count}{mark(row, case)}"


def losses(results: Results) -> list[str]:
    """The cases in which another contender reached the tolerance in less time than wassloss."""
    lines = []
    for group in results["groups"]:
        if group["kind"] != "entropic":
            continue
        rows = [row for row in group["measurements"] if row["seconds"] and row["error"] is not None]
        # Leave out gradients, which do more work, and graphs, which only some contenders have.
        own = [row for row in rows if row["contender"] == OURS]
        tol = group["case"]["tol"]
        peers = [
            row
            for row in rows
            if not row["contender"].startswith(OURS)
            and not row["stopped_after"]
            and row["error"] <= tol
            and row["examples"] in (None, group["case"]["batch"])
        ]
        if not own or not peers:
            continue
        best = min(peers, key=median)
        ratio = median(own[0]) / median(best)
        if ratio > 1:
            title = group["title"].removeprefix("entropic: ")
            times = f"{duration(median(own[0]))} | {best['contender']} {duration(median(best))}"
            lines.append((ratio, f"| {title} | {times} | {number(ratio)} × |"))
    lines.sort(key=lambda line: -line[0])
    head = ["| problem | wassloss | fastest | ours over it |", "| --- | ---: | ---: | ---: |"]
    return [*head, *(line for _, line in lines)] if lines else []


def headlines(results: Results) -> list[str]:
    """For each entropic case, our time and each library's fastest call relative to it."""
    names = {row["contender"] for group in results["groups"] for row in group["measurements"]}
    libraries = [one for one in LIBRARIES if any(name.startswith(one) for name in names)]
    lines = [
        f"| problem | wassloss | {' | '.join(libraries)} |",
        f"| --- | ---: {'| ---: ' * len(libraries)}|",
    ]
    for group in results["groups"]:
        rows = {row["contender"]: row for row in group["measurements"]}
        own = rows.get(OURS)
        if group["kind"] != "entropic" or own is None or not own["seconds"]:
            continue
        cells = [_fastest(rows, library, group["case"], median(own)) for library in libraries]
        title = group["title"].removeprefix("entropic: ")
        lines.append(f"| {title} | {duration(median(own))} | {' | '.join(cells)} |")
    return lines


def _fastest(
    rows: dict[str, dict[str, Any]], library: str, case: dict[str, Any], own: float
) -> str:
    """The time of a library's fastest call relative to ours, among those nearest the tolerance."""
    found = [(name, row) for name, row in rows.items() if name.startswith(library)]
    timed = [(name, row) for name, row in found if row["seconds"]]
    if not timed:
        return "" if not found else "not run"
    ranks = ["", " ‡", " †"]
    level = min(ranks.index(mark(row, case)) + bool(row["stopped_after"]) for _, row in timed)
    best = [
        (median(row), name, row)
        for name, row in timed
        if ranks.index(mark(row, case)) + bool(row["stopped_after"]) == level
    ]
    took, name, row = min(best, key=lambda one: one[0])
    by_hand = " by hand" if name.endswith("support only") else ""
    above = "> " if row["stopped_after"] else ""
    if math.isnan(took / own):
        return "not run"
    return f"{above}{number(took / own)} ×{by_hand}{mark(row, case)}"


def training(results: Results) -> list[str]:
    """Times of the loss relative to cross-entropy: of each call, and in a training step."""
    lines = [
        "| work | cross-entropy | Wasserstein | W + 0.1 KL |",
        "| --- | ---: | ---: | ---: |",
    ]
    for group in results["groups"]:
        rows = {row["contender"]: row for row in group["measurements"] if row["seconds"]}
        if goals.training.BASELINE not in rows:
            continue
        base = median(rows[goals.training.BASELINE])
        cells = [
            f"{number(median(rows[name]) / base)} ×" if name in rows else ""
            for name in ("WassersteinLoss", "WassersteinLoss + 0.1 KL")
        ]
        lines.append(f"| {group['title']} | {duration(base)} | {' | '.join(cells)} |")
    return lines
