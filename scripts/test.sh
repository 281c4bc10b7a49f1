#!/usr/bin/env bash
# From a checkout to the test results in one command: installs what is missing, builds everything, runs all tests.
# Arguments go to ctest, for instance -R lowering or -LE slow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cat >&2 <<'TEXT'
test: a first run on a fresh Debian 12 downloads about 270 MB of packages and 250 MB of Python packages, needs
test: 6 GB of disk and 8 GB of memory, and takes about 35 minutes on 2 cores.
TEXT
# The tests of libtorch share the cores with others; threads that spin while they wait would keep those from work.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-PASSIVE}"
scripts/setup.sh --tests
scripts/build.sh
exec ctest --test-dir build --output-on-failure --parallel "$(nproc)" "$@"
