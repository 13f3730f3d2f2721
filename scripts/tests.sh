#!/bin/bash
# tests.sh ARGUMENT...: runs go test with the arguments. It prints one line for each package. Then
# it prints the failed and skipped tests with the reasons. If TEST_TIMES is set, it is a folder to
# which tests.sh adds a file with the test events.
set -euo pipefail
tools=$(dirname "$(realpath "$0")")/../tools/go.mod
times=()
[ -z "${TEST_TIMES:-}" ] || times=(--jsonfile "$(mktemp "$TEST_TIMES/XXXXXX")")
exec go tool -modfile="$tools" gotestsum --format pkgname --format-icons text "${times[@]}" -- "$@"
