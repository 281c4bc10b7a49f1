#!/usr/bin/env bash
# Installs what qgpu needs to build and run on Debian 12: Debian packages, and libtorch from PyTorch's CPU wheel in the
# project's own virtual environment .venv. Run it again at any time: what is there already is left alone.
#
#   scripts/setup.sh             what building and running needs
#   scripts/setup.sh --tests     and what the tests need: transformers and its companions, in the same environment
#   scripts/setup.sh --check     only says what is missing; exit 1 if something is
#
# Torch_DIR=/path/share/cmake/Torch uses a libtorch of your own; PyTorch is then not installed for building.
# QGPU_PYTHON chooses the Python that makes .venv (python3).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TORCH_VERSION=2.13.0
readonly TORCH_INDEX=https://download.pytorch.org/whl/cpu
readonly LOG=.cache/setup.log

# Each of these is used by something in the tree; docs/ARCHITECTURE.md gives the reason for every library.
readonly PACKAGES=(
  git ca-certificates g++ cmake ninja-build ccache pkg-config          # building
  python3 python3-venv                                                 # the virtual environment
  clang-19 llvm-19-dev libclang-common-19-dev                          # CUDA to PTX; PTX to this CPU
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libabsl-dev libboost-dev libboost-context-dev
  libcli11-dev nlohmann-json3-dev libfmt-dev libsqlite3-dev libssl-dev libseccomp-dev
  libpcre2-dev libicu-dev                                              # the tokenizer
  zlib1g-dev libzstd-dev                                               # named by LLVM's and gRPC's build files
  libgtest-dev libgmock-dev                                            # tests
)
readonly TEST_PACKAGES=(clang-format-19)
readonly TEST_MODULES=(transformers==5.24.0 tokenizers==0.23.3 numpy safetensors jinja2)

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 2; }

for_tests=false
check_only=false
for argument in "$@"; do
  case "$argument" in
    --tests) for_tests=true ;;
    --check) check_only=true ;;
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) die "unknown option $argument; known: --tests --check --help" ;;
  esac
done

missing_packages() {
  local package
  for package in "${PACKAGES[@]}" $($for_tests && echo "${TEST_PACKAGES[@]}"); do
    # What a Python from elsewhere provides, Debian's packages need not.
    case "$package" in python3 | python3-venv) python_can_make_environments && continue ;; esac
    [[ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null)" == ii* ]] || echo "$package"
  done
}

python_can_make_environments() {
  "${QGPU_PYTHON:-python3}" -c 'import ensurepip, venv' 2>/dev/null
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]} == 0)); then
    say "Debian packages: all installed"
    return
  fi
  local as_root=()
  if [[ "$(id -u)" != 0 ]]; then
    command -v sudo >/dev/null || die "needs root or sudo to install: ${missing[*]}"
    as_root=(sudo)
  fi
  say "Debian packages: ${#missing[@]} to install: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" \
    >"$LOG.apt" 2>&1 || { tail -n 20 "$LOG.apt" >&2; die "apt-get failed; its output is in $LOG.apt"; }
  grep -E '^(Need to get|After this operation)' "$LOG.apt" | sed 's/^/setup:   /' >&2 || true
}

# The version of a module in .venv, or nothing. Reads metadata only: importing torch takes seconds.
module_version() {
  [[ -x .venv/bin/python ]] || return 0
  .venv/bin/python -c "
from importlib import metadata
try: print(metadata.version('$1'))
except metadata.PackageNotFoundError: pass"
}

pip_install() { .venv/bin/python -m pip install --disable-pip-version-check --no-input "$@" >>"$LOG" 2>&1; }

# True if pip would install no NVIDIA package along with a plain torch: then that is a CPU build.
plain_torch_is_cpu_build() {
  local plan
  plan="$(.venv/bin/python -m pip install --disable-pip-version-check --no-input --dry-run --quiet --report - \
    "torch==$TORCH_VERSION" 2>>"$LOG")" || return 1
  ! grep -qiE '"name": *"(nvidia|cuda|triton)' <<<"$plan"
}

make_environment() {
  [[ -x .venv/bin/python ]] && return
  say "Python: making the virtual environment .venv"
  rm -rf .venv
  "${QGPU_PYTHON:-python3}" -m venv .venv
}

install_torch() {
  if [[ -n "${Torch_DIR:-}" ]]; then
    [[ -f "$Torch_DIR/TorchConfig.cmake" ]] || die "Torch_DIR=$Torch_DIR holds no TorchConfig.cmake"
    say "libtorch: yours, in $Torch_DIR"
    $for_tests || return 0
  fi
  local version
  version="$(module_version torch)"
  if [[ "$version" == "$TORCH_VERSION"* ]]; then
    say "PyTorch: $version in .venv"
    return
  fi
  say "PyTorch: installing $TORCH_VERSION, CPU build (download about 200 MB)"
  if pip_install "torch==$TORCH_VERSION+cpu"; then
    :
  elif pip_install --extra-index-url "$TORCH_INDEX" "torch==$TORCH_VERSION+cpu"; then
    :
  elif plain_torch_is_cpu_build && pip_install "torch==$TORCH_VERSION"; then
    :
  else
    tail -n 5 "$LOG" >&2
    die "no CPU build of torch $TORCH_VERSION found (configured indexes, $TORCH_INDEX); install one in .venv, or set
setup: Torch_DIR to the share/cmake/Torch folder of a libtorch. The output of pip is in $LOG"
  fi
  say "PyTorch: $(module_version torch) installed"
}

install_test_modules() {
  local wanted missing=()
  for wanted in "${TEST_MODULES[@]}"; do
    local have
    have="$(module_version "${wanted%%==*}")"
    [[ -n "$have" && ("$wanted" != *==* || "$have" == "${wanted##*==}") ]] || missing+=("$wanted")
  done
  if ((${#missing[@]} == 0)); then
    say "Python modules of the tests: all installed"
    return
  fi
  say "Python modules of the tests: installing ${missing[*]} (download about 40 MB)"
  pip_install "${missing[@]}" || { tail -n 5 "$LOG" >&2; die "pip failed; its output is in $LOG"; }
}

check() {
  local missing
  mapfile -t missing < <(missing_packages)
  [[ -n "${Torch_DIR:-}" || "$(module_version torch)" == "$TORCH_VERSION"* ]] || missing+=("torch==$TORCH_VERSION")
  ((${#missing[@]} == 0)) && { say "nothing is missing"; exit 0; }
  say "missing: ${missing[*]}"
  exit 1
}

if ! command -v apt-get >/dev/null; then
  die "this script knows Debian 12's apt-get only; elsewhere install the equivalents of: ${PACKAGES[*]}"
fi
$check_only && check
mkdir -p .cache
: >"$LOG"
SECONDS=0
install_packages
if [[ -z "${Torch_DIR:-}" ]] || $for_tests; then make_environment; fi
install_torch
if $for_tests; then install_test_modules; fi
say "ready after $SECONDS s"
