"""Jobs on this machine: one detached supervisor an attempt."""
