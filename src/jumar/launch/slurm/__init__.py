"""A job inside a Slurm allocation: the batch step, and the launcher of each node."""
