#!/bin/bash
# parts.sh TARGET...: makes one target after the other. It prints the time of each target and the
# ten slowest tests. It fails if a target fails. It also fails if builds or tests change files of
# the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."

# state prints the differences between the checkout and the last commit.
state() { git status --porcelain 2>/dev/null && git diff 2>/dev/null || true; }

TEST_TIMES=$(mktemp -d)
export TEST_TIMES
report=''
summary() {
	printf '\nslowest tests\n' >&2
	cat "$TEST_TIMES"/* 2>/dev/null | go tool -modfile="$PWD/tools/go.mod" gotestsum tool slowest --num 10 >&2 || true
	printf '\n%-10s %s\n%s' part 'minutes:seconds' "$report" >&2
	rm -rf "$TEST_TIMES"
}
trap summary EXIT

before=$(state)
for part in "$@"; do
	began=$SECONDS
	"${MAKE:-make}" "$part" && ended=passed || ended=failed
	took=$((SECONDS - began))
	report+=$(printf '%-10s %d:%02d %s' "$part" $((took / 60)) $((took % 60)) "$ended")$'\n'
	[ "$ended" = passed ] || exit 1
done
if [ "$(state)" != "$before" ]; then
	echo 'make test: the tests changed these files of the checkout:' >&2
	git status --short >&2
	exit 1
fi
