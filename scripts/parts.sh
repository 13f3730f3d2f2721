#!/bin/bash
# parts.sh [--minutes N] TARGET...: makes one target after the other. It prints the time of each
# target, the ten slowest tests and the flaky tests. It fails if a target fails, but it makes the
# other targets first, unless "build" fails. It also fails if builds or tests change files of the
# checkout. It warns if the targets take longer than N minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=
[ "${1:-}" != --minutes ] || { minutes=$2; shift 2; }

# state prints the differences between the checkout and the last commit.
state() { git status --porcelain 2>/dev/null && git diff 2>/dev/null || true; }

TEST_TIMES=$(mktemp -d)
export TEST_TIMES
report='' failed=''
row() { printf '%-10s %d:%02d %s' "$1" $(($2 / 60)) $(($2 % 60)) "$3"; }
summary() {
	printf '\nslowest tests\n' >&2
	cat "$TEST_TIMES"/*.json 2>/dev/null | go tool -modfile="$PWD/tools/go.mod" gotestsum tool slowest --num 10 >&2 || true
	printf '\n%-10s %s\n%s%s\n' part 'minutes:seconds' "$report" "$(row total "$SECONDS" '')" >&2
	if [ -s "$TEST_TIMES/flaky" ]; then
		sed 's/^/FLAKY: /' "$TEST_TIMES/flaky" >&2
		echo 'Each of these tests failed once. Find the cause and fix it in the next commit.' >&2
	fi
	if [ -n "$minutes" ] && [ "$SECONDS" -gt $((minutes * 60)) ]; then
		echo "warning: this took longer than $minutes minutes. On a quiet host, make the slowest tests faster." >&2
	fi
	rm -rf "$TEST_TIMES"
}
trap summary EXIT

before=$(state)
for part in "$@"; do
	began=$SECONDS
	"${MAKE:-make}" "$part" && ended=passed || ended=failed
	took=$((SECONDS - began))
	report+=$(row "$part" "$took" "$ended")$'\n'
	[ "$ended" = passed ] || failed+=" $part"
	[ "$failed" != ' build' ] || exit 1
done
if [ "$(state)" != "$before" ]; then
	echo 'make test: the tests changed these files of the checkout:' >&2
	git status --short >&2
	exit 1
fi
[ -z "$failed" ] || { echo "make test: failed:$failed" >&2 && exit 1; }
