"""A fitted estimator as a page that can be read, kept and sent."""

from pellucid.report.page import writable, write_report

__all__ = ["writable", "write_report"]
