"""Reports: runs in, one self-contained HTML page out."""

from wassloss.report.content import Report, build_report
from wassloss.report.page import render, write_report

__all__ = ["Report", "build_report", "render", "write_report"]
