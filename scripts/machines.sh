#!/bin/bash
# machines.sh: runs the tests on real machines and checks that they left nothing behind.
set -euo pipefail
cd "$(dirname "$0")/.."
state=$(mktemp -d)
export PYRO_STATE_DIR=$state/state
snapshot() {
	pgrep -f 'qemu-system|pyro-guest|bin/pyro' | sort || true
	grep -c . /proc/mounts
	find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'pyro*' | sort
	find "$PYRO_STATE_DIR" -mindepth 2 2>/dev/null | sort || true
}
tidy() { rm -rf "$state"; }
trap tidy EXIT
before=$(snapshot)
# One package after the other: they share two processors with the machines.
go test -tags machine -count 1 -p 1 -timeout 20m ./...
after=$(snapshot)
if [ "$before" != "$after" ]; then
	echo "left behind by the tests (< before, > after):" >&2
	diff <(echo "$before") <(echo "$after") >&2 || true
	exit 1
fi
