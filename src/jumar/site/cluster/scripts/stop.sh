#!/bin/sh
# Ends the cluster of this folder and what is left of its jobs.
set -u
folder=@FOLDER@
export SLURM_CONF="$folder/slurm.conf"
end() { [ -s "$1" ] && kill "-$2" "$(cat "$1")" 2>/dev/null; }
scancel --full --signal=KILL --state=RUNNING 2>/dev/null
scancel --state=PENDING 2>/dev/null
# Without a controller nobody would end what is left of them.
tries=0
while [ "$tries" -lt 50 ] && [ -n "$(squeue --noheader --states=RUNNING,COMPLETING 2>/dev/null)" ]; do
    tries=$((tries + 1))
    sleep 0.2
done
end "$folder/run/slurmctld.pid" TERM
for node in @NODES@; do end "$folder/run/slurmd-$node.pid" TERM; done
tries=0
while [ "$tries" -lt 50 ]; do
    left=0
    for file in "$folder"/run/slurm*.pid; do
        [ -s "$file" ] && kill -0 "$(cat "$file")" 2>/dev/null && left=1
    done
    [ "$left" = 1 ] || break
    tries=$((tries + 1))
    sleep 0.2
done
for file in "$folder"/run/slurm*.pid; do end "$file" KILL; done
end "$folder/run/munged.pid" TERM
true
