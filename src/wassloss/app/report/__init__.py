"""Reports: what runs, a comparison or the demo found, as one self-contained HTML page."""

from wassloss.app.report.page import Report, check_page, write_report
from wassloss.app.report.tables import comparison_report, runs_report

__all__ = ["Report", "check_page", "comparison_report", "runs_report", "write_report"]
