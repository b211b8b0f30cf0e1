"""The page: a report's numbers and figures as one HTML file that fetches nothing."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

from wassloss import __version__, plots
from wassloss._files import replacing
from wassloss.report.content import Comparison, Example, Guess, Report
from wassloss.report.figures import mass_figure, top_k_figure, training_figure, validation_figure
from wassloss.runs.evaluation import MEANING

_STYLE = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")


def write_report(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the page, all or nothing."""
    page = render(report)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def render(report: Report) -> str:
    """The page as text."""
    several = len(report.names) > 1
    title = "Milder mistakes?" if several else report.names[0]
    watched = validation_figure(report)
    sections = [
        _comparison(report.comparison) if report.comparison else "",
        _section(
            "scores",
            "Scores of these runs" if several else "Scores",
            _score_table(report),
            _reading(report),
        ),
        _section(
            "top-k-cost",
            "Top-k cost",
            top_k_figure(report),
            "How far the k best guesses are, on average, from the nearest true label. Lower is "
            "better; bands are one standard error over examples.",
        ),
        _section(
            "mass",
            "Where predicted mass goes",
            mass_figure(report),
            "All of the mass that each run predicts, by its distance to the nearest true label: "
            "mass on the left is right or nearly so, mass on the right is far off. Grey is a "
            "prediction that treats all labels alike. A loss with entropy (ε > 0) softens "
            "predictions on purpose: its mass may lie further off than its ranking does.",
        ),
        _section(
            "training",
            "Training",
            training_figure(report) + (watched or ""),
            "Losses are in units of their own, and are not to be compared between panels."
            if several
            else "",
        ),
        _section(
            "examples", "Predictions side by side" if several else "Predictions", *_examples(report)
        ),
        _section("configuration", "Configuration", _configuration(report)),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>wassloss: {escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n"
        f"<header>\n<h1>{escape(title)}</h1>\n<p>{escape(report.subtitle)}</p>\n"
        f"{_legend(report)}{_notes(report.notes)}</header>\n<main>\n"
        + "\n".join(section for section in sections if section)
        + f"\n</main>\n<footer>wassloss {escape(__version__)}</footer>\n</body>\n</html>\n"
    )


def _section(name: str, title: str, body: str, text: str = "") -> str:
    words = f"<p>{escape(text)}</p>\n" if text else ""
    return f'<section id="{name}">\n<h2>{escape(title)}</h2>\n{words}{body}\n</section>'


def _legend(report: Report) -> str:
    runs = "".join(f"<li>{_dot(i)}{escape(name)}</li>" for i, name in enumerate(report.names))
    return f'<ul class="legend">{runs}</ul>\n'


def _dot(place: int) -> str:
    color = plots.COLORS[place % len(plots.COLORS)]
    return f'<span class="dot" style="background:{color}"></span>'


def _notes(notes: list[str]) -> str:
    return "".join(f'<p class="note">{escape(note)}</p>\n' for note in notes)


def _comparison(table: Comparison) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    rows = "".join(
        f"<tr>{''.join(f'<td{_mood(cell)}>{escape(cell)}</td>' for cell in row)}</tr>"
        for row in table.rows
    )
    body = f'<div class="wide"><table class="numbers"><tr>{head}</tr>{rows}</table></div>'
    body += _notes(table.notes)
    return _section("comparison", table.title, body)


def _mood(cell: str) -> str:
    return f' class="{cell}"' if cell in ("better", "worse") else ""


def _score_table(report: Report) -> str:
    head = "<th>score</th>" + "".join(
        f"<th>{_dot(i)}{escape(name)}</th>" for i, name in enumerate(report.names)
    )
    if report.differences:
        head += "<th>difference (95 % interval)</th>"
    rows = []
    for name in report.scores[0].values:
        more, meaning = MEANING[name]
        means = [scores.mean(name) for scores in report.scores]
        best = max(means) if more else min(means)
        cells = [
            f'<td class="{"best" if mean == best and len(means) > 1 else ""}">{mean:.4f}'
            f"<small> ± {scores.standard_error(name):.4f}</small></td>"
            for mean, scores in zip(means, report.scores, strict=True)
        ]
        if report.differences:
            gap = report.differences[name]
            verdict = gap.verdict(more)
            cells.append(
                f'<td class="{verdict}">{gap.mean:+.4f}<small> [{gap.low:+.4f}, {gap.high:+.4f}] '
                f"{verdict}</small></td>"
            )
        arrow = "↑" if more else "↓"
        label = f'{escape(name)} {arrow}<small class="meaning">{escape(meaning)}</small>'
        rows.append(f"<tr><td>{label}</td>{''.join(cells)}</tr>")
    return f'<div class="wide"><table class="numbers"><tr>{head}</tr>{"".join(rows)}</table></div>'


def _reading(report: Report) -> str:
    text = "Mean ± standard error over examples; ↓ lower is better, ↑ higher is better."
    if len(report.names) > 1:
        text += " The better mean is bold."
    if report.differences:
        text += (
            f" The difference is {report.names[1]} less {report.names[0]} on the same examples; "
            "“unclear” where its interval holds 0. It tells how far these two models differ, not "
            "what other seeds would give."
        )
    return text


def _examples(report: Report) -> tuple[str, str]:
    if not report.examples:
        return "<p>None were asked for.</p>", ""
    head = "<th>true labels</th>" + "".join(
        f"<th>{_dot(i)}{escape(name)}</th>" for i, name in enumerate(report.names[:2])
    )
    rows = "".join(_example(example) for example in report.examples)
    table = f'<div class="wide"><table class="examples"><tr>{head}</tr>{rows}</table></div>'
    text = (
        "Drawn at random, not chosen. Bars are probabilities; the number after a guess is its "
        "distance to the nearest true label, ✓ where it is one."
    )
    return table, text


def _example(example: Example) -> str:
    truth = "".join(f"<li>{escape(name)}</li>" for name in example.truth)
    first = f'<small>example {example.row}</small><ul class="truth">{truth}</ul>'
    cells = "".join(
        f"<td><ol>{''.join(_guess(guess) for guess in guesses)}</ol></td>"
        for guesses in example.guesses
    )
    return f"<tr><td>{first}</td>{cells}</tr>"


def _guess(guess: Guess) -> str:
    right = guess.distance == 0
    mark = "✓" if right else f"{guess.distance:.2f}"
    share = 100 * guess.probability
    return (
        f'<li class="{"right" if right else "wrong"}"><span class="bar" '
        f'style="width:{share:.1f}%"></span><span class="label">{escape(guess.label)}</span>'
        f'<span class="chance">{share:.0f} %</span><span class="distance">{mark}</span></li>'
    )


def _configuration(report: Report) -> str:
    names = list(dict.fromkeys(name for config in report.configs for name in config))
    values = {name: [config.get(name, "–") for config in report.configs] for name in names}
    differ = [name for name in names if len(set(values[name])) > 1]
    same = [name for name in names if name not in differ]
    head = "<th></th>" + "".join(
        f"<th>{_dot(i)}{escape(name)}</th>" for i, name in enumerate(report.names)
    )

    def table(chosen: list[str]) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th>"
            + "".join(f"<td>{escape(value)}</td>" for value in values[name])
            + "</tr>"
            for name in chosen
        )
        return f'<div class="wide"><table class="config"><tr>{head}</tr>{rows}</table></div>'

    if len(report.names) == 1:
        return table(same)
    first = table(differ) if differ else "<p>The runs have the same settings.</p>"
    return f"{first}\n<details><summary>What they share</summary>{table(same)}</details>"
