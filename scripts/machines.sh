#!/bin/bash
# machines.sh: runs the tests on real machines and checks that they left nothing behind: no process, mount or file.
set -euo pipefail
cd "$(dirname "$0")/.."
own=$(mktemp -d -p /var/tmp) # on a disk, where /tmp may be in memory
trap 'rm -rf "$own"' EXIT
chmod 711 "$own" # one test becomes an ordinary user
mkdir -m 711 "$own/tmp"
# Everything that the tests and pyro put somewhere, the shared cache apart, is below one folder: by that it is known whose it is.
export PYRO_STATE_DIR=$own/state TMPDIR=$own/tmp PYRO_RUNSC=$PWD/bin/pyro-runsc

processes() { pgrep -f 'qemu-system|pyro' | sort || true; }

# ours tells whether a process was started by the tests: it has their folder in its environment or open, or it is a new one that has
# lost its parent, and no other run of pyro's has given it a folder.
ours() {
	local pid=$1
	grep -qF "$own" "/proc/$pid/environ" 2>/dev/null && return
	[ -n "$(find "/proc/$pid/fd" -lname "$own*" -print -quit 2>/dev/null)" ] && return
	! grep -q PYRO_STATE_DIR "/proc/$pid/environ" 2>/dev/null && [ "$(ps -o ppid= -p "$pid" | tr -d ' ')" = 1 ] && ! grep -qx "$pid" <<<"$before"
}

left() {
	local pid
	for pid in $(processes); do
		# The dead that have lost their parent are the first process's to reap, which not every container's does.
		[[ "$(ps -o stat= -o ppid= -p "$pid")" =~ ^Z[^\ ]*\ +1$ ]] && continue
		! ours "$pid" || ps -o pid=,stat=,args= -p "$pid" | cut -c 1-160
	done
	grep -F "$own" /proc/mounts || true
	find "$own/tmp" "$own/state/machines" -mindepth 1 2>/dev/null || true
}

# Tests use buf as a foreign client. Compiling it takes minutes on a new machine, longer than servers
# of the tests wait for a client.
go tool -modfile=tools/go.mod -n buf >/dev/null

before=$(processes)
# The drivers side by side, then the built program, with more tests at once than there are processors: machines wait as much as they work.
packages=$(grep -rl --include='*_test.go' '^//go:build machine$' . | xargs -n 1 dirname | sort -u | grep -vx ./test)
# shellcheck disable=SC2086
scripts/tests.sh -tags machine -count 1 -p 2 -timeout 20m $packages
scripts/tests.sh -tags machine -count 1 -parallel 4 -timeout 20m ./test
# The built program once more on emulated machines, which are what it falls back to, but for what is the same whatever runs them.
PYRO_ISOLATION=tcg scripts/tests.sh -tags machine -short -count 1 -parallel 4 -timeout 20m ./test
found=$(left)
if [ -n "$found" ]; then
	printf 'left behind by the tests:\n%s\n' "$found" >&2
	exit 1
fi
