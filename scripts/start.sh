#!/usr/bin/env bash
# From a checkout to the main job in one command: installs what is missing, builds, runs the whole kernel suite in the
# model's weights, and ends with the suite's verdict. Arguments go to `qgpu-coordinator run-suite`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cat >&2 <<'TEXT'
start: a first run on a fresh Debian 12 downloads about 270 MB of packages and 200 MB of Python packages, needs
start: 3 GB of disk and 2 GB of memory, and takes about 15 minutes on 2 cores; later runs take about a minute.
TEXT
scripts/setup.sh
scripts/build.sh qgpu_programs
echo "start: build/bin/qgpu-coordinator run-suite $*" >&2
exec build/bin/qgpu-coordinator run-suite "$@"
