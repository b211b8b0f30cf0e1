"""Write results as one self-contained HTML page."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from html import escape

from experiments.lab.experiment import Experiment, Outcome, Result, Verdict
from experiments.lab.files import replacing
from experiments.lab.style import png

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3rem; }
img { max-width: 100%; height: auto; } figure { margin: 1rem 0; }
table { border-collapse: collapse; } th, td { text-align: left; vertical-align: top;
  padding: .4rem .8rem .4rem 0; border-bottom: 1px solid #ddd; }
.held { color: #00664b; } .partly { color: #7a5200; } .failed { color: #a33b00; }
.about { color: #555; font-size: .85rem; }
"""
_CLASS = {Outcome.HELD: "held", Outcome.PARTLY: "partly", Outcome.FAILED: "failed"}


def write_page(
    results: Mapping[str, Result],
    experiments: Mapping[str, Experiment],
    path: str | os.PathLike[str],
) -> None:
    """Write every figure and verdict as one self-contained HTML file."""
    with replacing(path) as temporary:
        temporary.write_text(render_page(results, experiments), encoding="utf-8")


def render_page(results: Mapping[str, Result], experiments: Mapping[str, Experiment]) -> str:
    """Return the page as text."""
    rows = "".join(
        f'<tr><td><a href="#{name}">{name}</a></td><td>{escape(v.claim)}</td>{_outcome(v)}'
        f"<td>{escape(v.effect)}</td><td>{result['mode']}</td></tr>"
        for name, result in results.items()
        for v in experiments[name].verdict(result)
    )
    sections = "".join(_section(experiments[name], result) for name, result in results.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>wassloss: results</title><style>{_STYLE}</style></head><body>"
        "<h1>Learning with a Wasserstein Loss, reproduced</h1>"
        "<table><thead><tr><th>experiment</th><th>claim</th><th>outcome</th><th>effect</th>"
        f"<th>sizes</th></tr></thead><tbody>{rows}</tbody></table>{sections}</body></html>\n"
    )


def _section(experiment: Experiment, result: Result) -> str:
    figures = ""
    for title, figure in experiment.draw(result).items():
        picture = base64.b64encode(png(figure)).decode("ascii")
        alt = escape(f"{experiment.title}: {title}")
        figures += f'<figure><img alt="{alt}" src="data:image/png;base64,{picture}"></figure>'
    beside = "" if experiment.html is None else experiment.html(result)
    verdicts = "".join(
        f"<p><strong>{escape(v.claim)}</strong>: {_word(v)}. {escape(v.effect)}. "
        f"{escape(v.words)}</p>"
        for v in experiment.verdict(result)
    )
    machine, seconds = result["machine"], result["seconds"]["this run"]
    about = (
        f"{result['command']} ({result['mode']}), {result['made']}, {seconds:.0f} s on "
        f"{machine.get('gpu', machine['cpu'])}; wassloss {result['versions']['wassloss']}, "
        f"torch {result['versions']['torch']}."
    )
    return (
        f'<section id="{experiment.name}"><h2>{escape(experiment.title)}</h2>'
        f"<p>{escape(_origin(experiment))}: {escape(experiment.claim)}</p>"
        f'{figures}{beside}{verdicts}<p class="about">{escape(about)}</p></section>'
    )


def _origin(experiment: Experiment) -> str:
    where = experiment.figure
    return where.capitalize() if where.startswith("beyond") else f"The paper, {where}"


def _outcome(verdict: Verdict) -> str:
    return f"<td>{_word(verdict)}</td>"


def _word(verdict: Verdict) -> str:
    return f'<span class="{_CLASS[verdict.outcome]}">{verdict.outcome.value}</span>'
