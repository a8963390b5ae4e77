"""Endpoints of running jobs: each an origin of its own, behind which a program of the job answers."""
