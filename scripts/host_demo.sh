#!/bin/bash
# host_demo.sh: a demonstration of the host agent. The client uses reflection to discover the host
# agent's methods.
set -euo pipefail
cd "$(dirname "$0")/.."
own=$(mktemp -d)
PYRO_HOST_TOKEN=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
export PYRO_HOST_TOKEN PYRO_STATE_DIR=$own/state
buf=$(go tool -n -modfile=tools/go.mod buf)
agent=

# serve starts the host agent and waits for its address.
serve() {
	: >"$own/said"
	bin/pyro host serve --listen 127.0.0.1:0 --log-level warn >"$own/said" 2>"$own/log" &
	agent=$!
	until at=$(sed -n 's/^serving at //p' "$own/said") && [ -n "$at" ]; do
		kill -0 "$agent" || { cat "$own/log" >&2; exit 1; }
		sleep 0.05
	done
}
finish() {
	if [ -n "$agent" ] && kill -0 "$agent" 2>/dev/null; then
		"$buf" curl --protocol grpc --http2-prior-knowledge -H "Authorization: Bearer $PYRO_HOST_TOKEN" --reflect-header '*' -d '{}' "$at/hostagent.v1.HostAgentService/Terminate" >/dev/null || kill "$agent"
		wait "$agent" || true
	fi
	rm -rf "$own"
}
trap finish EXIT

tell() { printf '\n\033[1m# %s\033[0m\n' "$1"; }
# call makes a call, and prints the request and the response. It prints bytes as text.
call() {
	printf '\033[1m$ %s\033[0m %s\n' "$1" "${2:-}"
	"$buf" curl --protocol grpc --http2-prior-knowledge -H "Authorization: Bearer $PYRO_HOST_TOKEN" --reflect-header '*' -d "${2:-{\}}" "$at/hostagent.v1.HostAgentService/$1" 2>&1 |
		while IFS= read -r line; do
			if [[ $line =~ ^(.*\"(stdout|stderr|content|chunk)\":\ *)\"([A-Za-z0-9+/=]+)\"(.*)$ ]]; then
				printf '%s%s%s\n' "${BASH_REMATCH[1]}" "$(base64 -d <<<"${BASH_REMATCH[3]}" | sed -e 's/"/\\"/g' | awk '{ printf "%s%s", sep, $0; sep = "\\n" }' | sed -e 's/^/"/; s/$/"/')" "${BASH_REMATCH[4]}"
			elif [[ ! $line =~ \"(debug|value)\" ]]; then
				printf '%s\n' "$line"
			fi
		done | awk -v most="${3:-40}" 'NR <= most'
}
# refused makes a call that must fail.
refused() { ! call "$@"; }
sh() { printf '{"sandbox_id": "%s", "cmd": "sh", "args": ["-c", "%s"]}' "$1" "$2"; }
team='"team_id": "00000000-0000-4000-8000-000000000001"'
running='"template_id": "00000000-0000-4000-8000-0000000000aa"'
files='"template_id": "00000000-0000-4000-8000-0000000000bb"'

bin/pyro prepare debian:12 >/dev/null
tell 'The host agent serves this host to a control plane: gRPC, gRPC-Web and Connect on one port.'
serve
echo "$at"
tell 'Create a sandbox, which is a new machine, from the template minimal.'
call CreateSandbox '{"sandbox_id": "one", "team_id": "00000000-0000-0000-0000-000000000000", "template_id": "00000000-0000-0000-0000-000000000000", "default_env": {"WHO": "agent"}}'
call Exec '{"sandbox_id": "one", "cmd": "sh", "args": ["-c", "echo $WHO on $(uname -sm); exit 3"]}'
tell 'Write files anywhere in the machine, atomically.'
call WriteFile "{\"sandbox_id\": \"one\", \"path\": \"/srv/note\", \"content\": \"$(printf 'from the control plane' | base64)\"}"
call ReadFile '{"sandbox_id": "one", "path": "/srv/note"}'
call ListDir '{"sandbox_id": "one", "path": "/srv"}'
tell 'Start a program that counts. After a restart it would begin at 1 again.'
call Exec "$(sh one "setsid sh -c 'n=0; while :; do n=\$((n+1)); echo \$n >/tmp/count; sleep 0.1; done' >/dev/null 2>&1 & sleep 1; cat /tmp/count")"
tell 'Pause the sandbox. It then uses no memory, and other calls do not resume it.'
call PauseSandbox '{"sandbox_id": "one"}'
refused Exec "$(sh one 'cat /tmp/count')" 3
tell 'Kill and restart the host agent. The sandbox is still paused, and can be resumed.'
{ kill -KILL "$agent" && wait "$agent" || true; } 2>/dev/null
serve
call ListSandboxes
call ResumeSandbox '{"sandbox_id": "one"}'
call Exec "$(sh one 'cat /tmp/count')"
tell 'Turn the sandbox into a template with its running programs. Create two sandboxes from it.'
call CreateSnapshot "{\"sandbox_id\": \"one\", \"name\": \"counting\", $team, $running}"
call CreateSandbox "{\"sandbox_id\": \"two\", $team, $running, \"timeout_sec\": 3600}" 3
call CreateSandbox "{\"sandbox_id\": \"three\", $team, $running}" 3
call Exec "$(sh two 'cat /tmp/count /srv/note; echo; hostname')"
call Exec "$(sh three 'cat /tmp/count /srv/note; echo; hostname')"
refused DeleteSnapshot "{$team, $running}" 3
tell 'Show the use of processors, memory and disk.'
sleep 2
call GetSandboxMetrics '{"sandbox_id": "two", "range": "10m"}' 12
tell 'Turn a sandbox into a template of its files only. Sandboxes from this template boot.'
call Exec "$(sh three 'echo and more >>/srv/note')"
call FlattenRootfs "{\"sandbox_id\": \"three\", $team, $files}"
call CreateSandbox "{\"sandbox_id\": \"four\", $team, $files, \"memory_mb\": 256}" 3
call Exec "$(sh four 'cat /srv/note; cat /proc/[0-9]*/cmdline | grep -q n+[1] && echo the program runs || echo the program does not run')"
tell 'Terminate destroys all sandboxes, and the host agent ends. Templates remain.'
call Terminate
wait "$agent"
agent=
bin/pyro workspace list
