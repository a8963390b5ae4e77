#!/usr/bin/env bash
# Starts one process per card, as the scripts of TensorFlow 1.15 for Ascend do: each finds itself in the rank table.
set -e
rank=0
pids=()
for device in ${VISIBLE_IDS//,/ }; do
  RANK_ID=$rank DEVICE_ID=$device "${PYTHON:-python3}" train.py "$@" &
  pids+=($!)
  rank=$((rank + 1))
done
for pid in "${pids[@]}"; do
  wait "$pid"
done
