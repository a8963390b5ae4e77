"""The part of a site that runs as root: one file, nothing of ours imported."""
