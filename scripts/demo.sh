#!/bin/bash
# demo.sh: a demonstration with real machines. It runs the commands that a new user would type.
set -euo pipefail
cd "$(dirname "$0")/.."
# say prints a command, then runs it.
say() {
	printf '\n\033[1m$ %s\033[0m\n' "$1"
	eval "$1"
}
# fails prints and runs a command that must fail.
fails() { ! say "$1"; }
say 'bin/pyro env pull debian:12'
say 'bin/pyro run debian:12 -- uname -srm'
say "bin/pyro run debian:12 -- sh -c 'cd /tmp && git init -q demo && cd demo && echo \"print(sum(range(10)))\" >sum.py &&
  git add . && git -c user.name=agent -c user.email=agent@localhost commit -qm first && git log --oneline && python3 sum.py'"
say "echo 'from the host' | bin/pyro run debian:12 -- tr a-z A-Z"
say 'bin/pyro run debian:12 --timeout-seconds 60 -- rm -rf --no-preserve-root /bin /usr /etc'
say 'bin/pyro run debian:12 -- cat /etc/debian_version'
say "bin/pyro run debian:12 -- python3 -c 'print(sum(i * i for i in range(10**7)))'"
# Run the same on a fully emulated computer. The first run builds a template, the second uses it.
say 'bin/pyro run --isolation tcg debian:12 -- uname -srm'
say "bin/pyro run --isolation tcg debian:12 -- python3 -c 'print(sum(i * i for i in range(10**7)))'"
# Work in a persistent workspace: copy a folder into it, fix a bug, and export the result.
pyro() { bin/pyro "$@"; }
say 'id=$(pyro workspace create debian:12 --seed-path examples/roman --network-policy egress+published-ports --id-only)'
fails 'pyro workspace exec $id -- python3 -Bm unittest -q'
say 'pyro workspace snapshot create $id found'
say 'pyro workspace patch apply $id --patch-file examples/roman.patch'
say 'pyro workspace exec $id -- python3 -Bm unittest -q'
say 'pyro workspace diff $id'
say 'pyro workspace exec $id -- sh -c "rm -rf /workspace/* /usr/lib/python3*"'
say 'pyro workspace reset $id --snapshot found'
say 'pyro workspace patch apply $id --patch-file examples/roman.patch'
# Serve the files over HTTP to this host. Then open a shell that an agent and a user share.
say 'pyro workspace service start $id web --publish 8000 --ready-tcp 8000 -- python3 -m http.server 8000'
port=$(pyro workspace service status $id web --json | sed -n 's/.*"host_port": *\([0-9]*\).*/\1/p')
say 'curl -s http://127.0.0.1:$port/roman.py | tail -3'
say 'pyro workspace service logs $id web'
say 'sh=$(pyro workspace shell open $id --id-only)'
say 'pyro workspace shell write $id $sh --input "python3 -ic \"from roman import roman\""'
say 'pyro workspace shell write $id $sh --input "roman(1994)"'
say 'pyro workspace shell read $id $sh --plain --wait-for-idle-ms 500'
# person acts as a user at a terminal: it types a line, then the key that detaches from the shell.
person() { (sleep 1; printf '%s\n' "$1"; sleep 1; printf '\035') | script -qec "bin/pyro workspace shell attach $id $sh" /dev/null; }
printf '\n\033[1m$ pyro workspace shell attach $id $sh   # types roman(2026), then ctrl-]\033[0m\n'
person 'roman(2026)'
say 'pyro workspace shell close $id $sh'
# The workspace can't connect to forbidden addresses. The network log shows the attempt.
fails 'pyro workspace exec $id -- python3 -c "import urllib.request as u; u.urlopen(\"http://169.254.169.254/\")" 2>&1 | tail -2'
say 'pyro workspace network log $id'
out=$(mktemp -d)
say 'pyro workspace export $id roman.py --output $out/roman.py'
say 'pyro workspace stop $id && pyro workspace list'
say 'pyro workspace disk read $id roman.py | head -3'
say 'pyro workspace delete $id'
# Serve sandboxes over HTTP, with records of its own.
export PYRO_STATE_DIR=$out/state
say 'bin/pyro serve --listen 127.0.0.1:0 --api-key-file $out/api-key >$out/serve.log 2>$out/serve.err &'
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
until grep -q '^API key' "$out/serve.log"; do
	kill -0 $server || { cat "$out/serve.err" >&2; exit 1; }
	sleep 0.1
done
say 'api=$(sed -n "s/^serving at //p" $out/serve.log)/v1'
say 'key="X-API-Key: $(cat $out/api-key)" json="Content-Type: application/json"'
say 'id=$(curl -sf -H "$key" -H "$json" -d "{\"template\": \"debian:12\"}" $api/sandboxes | sed "s/.*\"id\":\"\([^\"]*\).*/\1/")'
say 'curl -sf -H "$key" -H "$json" -d "{\"cmd\": \"uname\", \"args\": [\"-sr\"]}" $api/sandboxes/$id/exec'
say 'curl -sf -H "$key" -F path=/srv/roman.py -F file=@examples/roman/roman.py $api/sandboxes/$id/files/write'
say 'curl -sf -H "$key" -X POST $api/sandboxes/$id/pause'
say 'curl -sf -H "$key" -X POST $api/sandboxes/$id/resume'
say 'curl -sf -H "$key" -X DELETE $api/sandboxes/$id'
kill $server # not SIGINT, which background jobs of scripts ignore
wait $server
rm -rf "$out"
