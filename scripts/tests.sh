#!/bin/bash
# tests.sh ARGUMENT...: runs go test with these arguments. It prints a line a package, then the
# tests that failed or skipped, with the reasons. If TEST_TIMES is a folder, it collects events.
set -euo pipefail
tools=$(dirname "$(realpath "$0")")/../tools/go.mod
times=()
[ -z "${TEST_TIMES:-}" ] || times=(--jsonfile "$(mktemp "$TEST_TIMES/XXXXXX")")
exec go tool -modfile="$tools" gotestsum --format pkgname --format-icons text "${times[@]}" -- "$@"
