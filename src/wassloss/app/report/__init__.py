"""Reports on models, a comparison or the demo, each as one self-contained HTML page."""

from wassloss.app.report.comparison import comparison_report
from wassloss.app.report.models import models_report
from wassloss.app.report.page import Report, check_page, write_report

__all__ = ["Report", "check_page", "comparison_report", "models_report", "write_report"]
