#!/usr/bin/env bash
# Fails, naming the lines, if a C++ file of the project is not formatted as .clang-format says. --fix formats them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(--dry-run -Werror)
[[ "${1:-}" == --fix ]] && mode=(-i)
mapfile -d '' -t files < <(git ls-files -z --cached --others --exclude-standard -- '*.cc' '*.h')
existing=()
for file in "${files[@]}"; do [[ -f "$file" ]] && existing+=("$file"); done
clang-format-19 "${mode[@]}" "${existing[@]}"
echo "format: ${#existing[@]} files" >&2
