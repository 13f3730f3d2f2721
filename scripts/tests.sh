#!/bin/bash
# tests.sh PACKAGES FLAG...: runs go test on PACKAGES, one argument with spaces between the patterns,
# with the flags. It prints one line for each package. Then it prints the failed and skipped tests
# with the reasons.
#
# If at most five tests fail, tests.sh runs them once more. A test that then passes is flaky:
# tests.sh reports it, and the run passes. It never accepts a second run after a data race, a panic
# or a leak, or of a test that kills processes.
#
# With the race detector, GORACE has its options. tests.sh then also fails if a process that a test
# started had a data race, and prints the race. Such a test can pass: nobody looks at the standard
# error of a background process, or at the exit code of a killed one.
#
# If TEST_TIMES is set, it is a folder. tests.sh adds a file with the test events to it, and the
# names of flaky tests to its file "flaky".
set -euo pipefail
tools=$(dirname "$(realpath "$0")")/../tools/go.mod
packages=$1
shift
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
events=$(mktemp "${TEST_TIMES:-$own}/XXXXXX.json")

# Each process writes its data races to a file of its own.
[ -z "${GORACE:-}" ] || export GORACE="$GORACE log_path=$own/race"

# The tests start with the default action for all signals. The caller can ignore some, for example
# with nohup.
code=0
env --default-signal go tool -modfile="$tools" gotestsum --format pkgname --format-icons text --jsonfile "$events" \
	--rerun-fails=1 --rerun-fails-max-failures=5 --rerun-fails-abort-on-data-race --rerun-fails-report "$own/report" \
	--packages "$packages" -- -count 1 "$@" || code=$?

if compgen -G "$own/race.*" >/dev/null; then
	cat "$own"/race.* >&2
	echo 'a test, or a process that a test started, had these data races' >&2
	exit 1
fi

# A line of the report is "PACKAGE.TEST: N runs, M failures". The name of a test is empty if the
# package failed, for example because it leaked goroutines.
[ -s "$own/report" ] || exit "$code"
flaky=$(sed -En 's/^(.*): 2 runs, 1 failures$/\1/p' "$own/report")
fatal=$(grep -E '^[^:]*\.:|Kill|Crash|Power|Leak' "$own/report" || true)
if [ -n "$fatal" ]; then
	printf 'a second run does not count for these failures:\n%s\n' "$fatal" >&2
	exit 1
fi
if [ -n "$flaky" ]; then
	printf 'FLAKY: these tests failed, and passed when they ran again:\n%s\n' "$flaky" >&2
	[ -z "${TEST_TIMES:-}" ] || printf '%s\n' "$flaky" >>"$TEST_TIMES/flaky"
fi
exit "$code"
