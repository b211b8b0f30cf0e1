"""Reports: what runs, a comparison or the demo found, as one self-contained HTML page."""

from wassloss.report.comparison import comparison_report
from wassloss.report.page import write_report
from wassloss.report.record import Report
from wassloss.report.runs import runs_report

__all__ = ["Report", "comparison_report", "runs_report", "write_report"]
