#!/usr/bin/env bash
# Every check that needs a CUDA card, in one go of under 8 minutes: bash benchmarks/gpu_check.sh [OUT]
# Figures are printed and left in OUT. Needs minigrpo installed with [dev].
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:-$(mktemp -d)}
failed=0
run() { echo "== $*"; timeout 150 "$@" || { echo "FAILED ($?): $*"; failed=1; }; }
run nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv
run python -m minigrpo doctor
run python -m pytest -m gpu
for quant in nf4 none; do
  run python -m minigrpo train --model smollm2 --task "arithmetic(high=15, held_out=0.35)" --out "$out/$quant" \
    --set quant=$quant --set steps=20 --set lr=5e-4 --set eval_n=77
  run python -m minigrpo show "$out/$quant" --json
done
exit $failed
