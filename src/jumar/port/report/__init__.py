"""What a port is told in: a page, JSON, SARIF, a patch, and the vendor's set of files."""
