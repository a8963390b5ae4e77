#!/bin/sh
# Simulated NPUs computed by a CUDA card: the surface, the weights and the speed against plain CUDA.
# Needs a machine with a CUDA card and torch 2.10 or later: sh bench/sim_on_cuda.sh [python]
set -u
cd "$(dirname "$0")/.." || exit 1
python=${1:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
simulated() {
    PYTHONPATH=src/jumar/inject/sim_path JUMAR_SIM_DEVICES=4 JUMAR_SIM_BACKEND=cuda CUBLAS_WORKSPACE_CONFIG=:4096:8 "$python" "$@"
}
failed=0
simulated tests/inject/scripts/surface.py "$folder" || failed=1
CUBLAS_WORKSPACE_CONFIG=:4096:8 "$python" tests/inject/scripts/train.py cuda 25 "$folder/cuda" || failed=1
simulated tests/inject/scripts/train.py npu:0 25 "$folder/npu" 2>"$folder/report" || failed=1
tail -n 12 "$folder/report"
"$python" - "$folder" <<'PYTHON' || failed=1
import sys

import torch

plain, simulated = (torch.load(f"{sys.argv[1]}/{name}") for name in ("cuda", "npu"))
differing = {
    name: max(float((plain[name][key].double() - simulated[name][key].double()).abs().max()) for key in plain[name])
    for name in plain
    if not all(torch.equal(plain[name][key], simulated[name][key]) for key in plain[name])
}
print(f"{len(plain) - len(differing)} of {len(plain)} trainings agree with plain CUDA to the bit; others by: {differing}")
# cuDNN's recurrent layers are cast to bfloat16 by another way than torch's own.
sys.exit(0 if set(differing) <= {"lstm-bf16"} else 1)
PYTHON
"$python" bench/sim.py --backend cuda || failed=1
exit $failed
