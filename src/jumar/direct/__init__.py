"""Jobs on a cluster with no server of ours: their folders and Slurm's queue are all there is."""
