#!/bin/bash
# parts.sh TARGET...: makes each target in turn and says how long each took. It fails if a target
# fails, or if the checkout differs afterwards: building and testing write nothing into it.
set -euo pipefail
cd "$(dirname "$0")/.."

# state prints what differs from the last commit, with its content.
state() { git status --porcelain 2>/dev/null && git diff 2>/dev/null || true; }

report=''
summary() { printf '\n%-10s %s\n%s' part 'minutes:seconds' "$report" >&2; }
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
