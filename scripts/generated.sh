#!/bin/bash
# generated.sh: checks that internal/gen is what the files of proto generate. Other generated files
# have tests.
set -euo pipefail
cd "$(dirname "$0")/.."
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
PATH="$(go env GOROOT)/bin:$PATH" go tool -modfile=tools/go.mod buf generate -o "$own"
diff -r "$own/internal/gen" internal/gen || {
	echo 'make lint: internal/gen is out of date: run make generate' >&2
	exit 1
}
