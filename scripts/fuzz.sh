#!/bin/bash
# fuzz.sh: runs each fuzz test for FUZZTIME, which is a minute by default. Each processor runs one
# test at a time. If a test fails, fuzz.sh prints its output, runs the others, and fails.
#
# By default, Go spends up to a minute to shorten each new input, and tries no others meanwhile. Here
# it makes ten attempts.
set -euo pipefail
cd "$(dirname "$0")/.."

# fuzz FOLDER NAME runs one test and prints its last progress. Some folders are in other modules.
fuzz() {
	local out code=0
	out=$(go test -C "$1" -run '^$' -fuzz "^$2\$" -parallel 1 -fuzztime "${FUZZTIME:-60s}" -fuzzminimizetime 10x 2>&1) || code=$?
	# Go 1.26 can report the end of the time as an error. For an input that fails, it writes a file.
	# https://go.dev/issue/75804
	grep -qx ' *context deadline exceeded' <<<"$out" && ! grep -q 'Failing input written' <<<"$out" && code=0
	[ "$code" = 0 ] && out=$(grep '^fuzz:' <<<"$out" | tail -n 1)
	printf '%s %s\n%s\n' "$1" "$2" "$out"
	return "$code"
}
export -f fuzz

git grep -E '^func Fuzz[A-Za-z0-9_]*\(' -- '*_test.go' |
	sed -E 's,^(.*)/[^/]*:func (Fuzz[A-Za-z0-9_]*)\(.*,\1 \2,' |
	xargs -n 2 -P "$(nproc)" bash -c 'fuzz "$@"' fuzz
