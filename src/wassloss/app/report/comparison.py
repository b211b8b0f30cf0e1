"""The report on a comparison on a table."""

from __future__ import annotations

from wassloss.app.comparison import TableComparison
from wassloss.app.report.page import Mistake, Report, described, most_mended


def comparison_report(compared: TableComparison) -> Report:
    """The result of a comparison, with rows that illustrate it."""
    found, features = compared.found, compared.examples.X
    models, labels = (found.candidates[0], found.ours), found.labels

    def shown(i: int) -> Mistake:
        row = found.held[i]
        guesses = [labels[model.guess[i]] for model in models]
        text = described(features.iloc[row])
        number = compared.examples.rows[row]
        return Mistake(f"row {number}", text, labels[found.truth[i]], guesses)

    header, rows = found.table()
    before, after = (model.distance for model in models)
    return Report(
        answer=found.answer,
        models=models,
        names=[model.name for model in models],
        candidates=found.candidates,
        metric=found.best.metric_,
        labels=labels,
        truth=found.truth,
        header=header,
        rows=rows,
        notes=[
            f"{found.rows[0]} training rows and {found.rows[1]} held-out rows, on which nothing "
            "was chosen. Each loss got the same tuning budget: eight settings, chosen by the mean "
            "distance in cross-validation.",
            "Changes in distance are relative to the first row, with 95 % intervals over the "
            "held-out rows; “unclear” means that the interval includes 0 or is not defined.",
            f"The saved model is {found.best.classifier!r}.",
        ],
        unit="row",
        mended=[shown(i) for i in most_mended(before, after)],
        made=[shown(i) for i in most_mended(after, before)],
    )
