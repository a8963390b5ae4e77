"""Processes of a node: starting, watching, ending them. Knows nothing of jobs."""
