#!/bin/bash
# machines.sh quick|all: runs the tests that need real machines. It also checks that the tests leave
# no processes, mounts or files behind. "quick" uses gVisor, and emulated machines (tcg) only for a
# few tests. "all" runs all tests with both.
set -euo pipefail
which=$1
cd "$(dirname "$0")/.."
own=$(mktemp -d -p /var/tmp) # on a disk, because /tmp can be in memory
trap 'rm -rf "$own"' EXIT
chmod 711 "$own" # one test runs as an unprivileged user
mkdir -m 711 "$own/tmp"
# All files of the tests and of pyro are in one folder, except the shared cache. This folder also
# identifies the processes that the tests start.
export PYRO_STATE_DIR=$own/state TMPDIR=$own/tmp PYRO_RUNSC=$PWD/bin/pyro-runsc

processes() { pgrep -f 'qemu-system|pyro' || true; }

# ours reports whether the tests started a process: the environment or the open files of such a
# process contain the folder of the tests, or it is new and its program is in the checkout.
ours() {
	local pid=$1
	grep -qF "$own" "/proc/$pid/environ" 2>/dev/null && return
	[ -n "$(find "/proc/$pid/fd" -lname "$own*" -print -quit 2>/dev/null)" ] && return
	[[ "$(readlink "/proc/$pid/exe")" == "$PWD"/* ]] && ! grep -qx "$pid" <<<"$before"
}

left() {
	local pid
	for pid in $(processes); do
		# Ignore zombies whose parent is init. In some containers init does not reap them.
		[[ "$(ps -o stat= -o ppid= -p "$pid")" =~ ^Z[^\ ]*\ +1$ ]] && continue
		! ours "$pid" || ps -o pid=,stat=,args= -p "$pid" | cut -c 1-160
	done
	grep -F "$own" /proc/mounts || true
	find "$own/tmp" "$own/state/machines" -mindepth 1 2>/dev/null || true
}

# Build buf before the tests, which use it as a client. On a new machine, the build can take longer
# than the servers of the tests wait for a client.
go tool -modfile=tools/go.mod -n buf >/dev/null

# emulated runs a few tests with emulated machines.
emulated() {
	export PYRO_ISOLATION=tcg
	scripts/tests.sh ./internal/machine/qemu -short -vet=off -tags machine -timeout 20m \
		-run '^TestConformance$/^tcg$/^(Cancel|Ready|Interfaces|Machines)$/^(Life|Files|Network|Storage|Forks)$'
	scripts/tests.sh ./test -short -vet=off -tags machine -parallel 4 -timeout 45m \
		-run '^(TestExitCodes|TestDeliveredIsolationIsNamed|TestWorkspaceExec|TestWorkspaceDisk|TestPausedWorkspace|TestEgressDenied)$'
}

before=$(processes) code=0
# Test the drivers and the built program. -vet=off, because lint runs vet. More tests run at once
# than there are processors, because machines wait for much of the time.
case $which in
quick)
	# Emulated machines start slowly and wait for much of the time, so their tests run beside the
	# others. They print when the others have ended.
	emulated >"$own/emulated" 2>&1 &
	scripts/tests.sh "./test ./internal/machine/gvisor" -short -vet=off -tags machine -p 2 -parallel 6 -timeout 45m || code=$?
	wait $! || code=$?
	cat "$own/emulated"
	;;
all)
	packages=$(grep -rl --include='*_test.go' '^//go:build machine$' . | xargs -n 1 dirname | sort -u | grep -vx ./test)
	scripts/tests.sh "${packages//$'\n'/ }" -vet=off -tags machine -p 2 -timeout 40m || code=$?
	scripts/tests.sh ./test -vet=off -tags machine -parallel 4 -timeout 90m || code=$?
	PYRO_ISOLATION=tcg scripts/tests.sh ./test -vet=off -tags machine -parallel 4 -timeout 90m || code=$?
	;;
*) echo 'usage: machines.sh quick|all' >&2 && exit 2 ;;
esac
[ "$code" = 0 ] || exit "$code"
found=$(left)
if [ -n "$found" ]; then
	printf 'the tests left these behind:\n%s\n' "$found" >&2
	exit 1
fi
