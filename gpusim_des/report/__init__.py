"""A run as one HTML file."""

from gpusim_des.report.page import report_page, save_html

__all__ = ["report_page", "save_html"]
