"""Jobs on a Slurm cluster, over job directories that its nodes share."""
