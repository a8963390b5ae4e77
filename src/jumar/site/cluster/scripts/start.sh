#!/bin/sh
# Starts the cluster of this folder: munged, slurmctld and one slurmd per node.
set -eu
folder=@FOLDER@
export SLURM_CONF="$folder/slurm.conf"
[ -S "$folder/munge/socket" ] || /usr/sbin/munged --force --key-file="$folder/munge.key" \
    --socket="$folder/munge/socket" --pid-file="$folder/run/munged.pid" \
    --seed-file="$folder/munge/seed" --log-file="$folder/log/munged.log" --num-threads=2
/usr/sbin/slurmctld
for node in @NODES@; do /usr/sbin/slurmd -N "$node"; done
# Every wait has a limit: a minute.
tries=0
until [ "$(sinfo -h -N -p main -t idle -o %N 2>/dev/null | wc -l)" = "$(set -- @NODES@; echo $#)" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || { sinfo -N -l >&2; echo "error: not all nodes are idle" >&2; exit 1; }
    sleep 0.2
done
