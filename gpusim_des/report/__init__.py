"""A run as one HTML file, or as a folder of figures."""

from gpusim_des.report.folder import save_report
from gpusim_des.report.page import report_page, save_html

__all__ = ["report_page", "save_html", "save_report"]
