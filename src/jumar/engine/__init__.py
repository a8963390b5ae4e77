"""Where a job runs. `base` says what an engine is; each other module is one engine."""
