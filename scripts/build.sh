#!/usr/bin/env bash
# Configures and builds the release preset in build/.
#
#   scripts/build.sh [TARGET...]    all targets by default
#
# QGPU_JOBS sets the number of compilers at once; by default one a core, and one for every 2 GiB of free memory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'build: %s\n' "$*" >&2; }

cores="$(nproc)"
memory_gib="$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)"
jobs="${QGPU_JOBS:-$((cores * 2 > memory_gib ? (memory_gib > 2 ? memory_gib / 2 : 1) : cores))}"
options=()
[[ -n "${Torch_DIR:-}" ]] && options+=("-DTorch_DIR=$Torch_DIR")

mkdir -p .cache
if ! cmake --preset release "${options[@]}" >.cache/configure.log 2>&1; then
  cat .cache/configure.log >&2
  say "cmake failed; scripts/setup.sh installs what it needs"
  exit 2
fi
targets=()
for target in "$@"; do targets+=(--target "$target"); done
say "compiling in build/ with $jobs jobs"
SECONDS=0
cmake --build build --parallel "$jobs" "${targets[@]}" >&2
say "built after $SECONDS s"
