#!/bin/sh
# Whether all hosts take part: one task on each of them, within two minutes.
set -eu
answer=$(ssh -o BatchMode=yes @CONTROLLER@ timeout 120 srun --immediate=100 --nodes=@COUNT@ --ntasks-per-node=1 hostname | sort -u) || true
# srun may end well though no task was run: what counts is that each host has said its name.
if [ "$(echo "$answer" | grep -c .)" != @COUNT@ ]; then
    ssh -o BatchMode=yes @CONTROLLER@ sinfo -N -l >&2
    echo "error: not all hosts run tasks" >&2
    echo "hint: look at /var/log/slurm on a host that is not idle or did not answer; do the clocks agree?" >&2
    exit 1
fi
echo "$answer"
echo "all @COUNT@ hosts run tasks"
