"""Modules that the user's own script imports inside a job. Standard library, Python 3.7+.

`sim_path` is a folder for PYTHONPATH, used only when simulated NPUs are requested; the rest is run or
imported by name."""
