"""Formats of the report: a page, JSON, SARIF, a patch, and the vendor's set of files."""
