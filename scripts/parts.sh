#!/bin/bash
# parts.sh TARGET...: makes each target in turn and says how long each took, and which ten tests took
# longest. It fails if a target fails, or if the checkout differs afterwards: building and testing write nothing into it.
set -euo pipefail
cd "$(dirname "$0")/.."

# state prints what differs from the last commit, with its content.
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
	echo 'make test: these files of the checkout changed:' >&2
	git status --short >&2
	exit 1
fi
