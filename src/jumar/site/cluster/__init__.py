"""A Slurm cluster out of bare hosts: `jumar slurm setup`."""
