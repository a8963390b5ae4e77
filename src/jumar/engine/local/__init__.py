"""Jobs on this machine: one detached keeper per attempt."""
