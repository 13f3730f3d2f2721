#!/bin/bash
# fuzz.sh: runs each fuzz test for FUZZTIME, which is a minute by default.
set -euo pipefail
cd "$(dirname "$0")/.."
git grep -E '^func Fuzz[A-Za-z0-9_]*\(' -- '*_test.go' | while IFS=: read -r file line; do
	name=${line#func }
	name=${name%%(*}
	echo "fuzz ${file%/*} $name"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-60s}" "./${file%/*}" </dev/null
done
