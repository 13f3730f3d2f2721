#!/bin/bash
# prose.sh [FILE...]: checks the English of docs and of comments in Go, TypeScript and Python. It
# also checks that lines of docs and Go comments have at most 100 columns. Without arguments it
# checks all these files. The rules are in docs/style/pyro.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -gt 0 ]; then
	files=("$@")
else
	mapfile -t files < <(git ls-files '*.md' '*.go' '*.ts' '*.tsx' '*.py' ':!internal/gen' ':!*.gen.go' ':!web/src/api/schema.ts')
fi

failed=0
# vale's parser for Go contains C code, which is compiled only once. Without optimization, the
# compilation takes half the time.
CGO_ENABLED=1 CGO_CFLAGS='-O0 -w' CGO_CXXFLAGS='-O0 -w' \
	go tool -modfile="$PWD/tools/go.mod" vale --output line "${files[@]}" || failed=1

# Tables, code blocks, links and generated files can have longer lines.
awk '
	function width(line) { gsub(/\t/, "    ", line); return length(line) }
	FNR == 1 { code = 0; generated = 0 }
	FNR <= 4 && /^<!-- Generated|Code generated/ { generated = 1 }
	FILENAME ~ /\.md$/ && /^ *```/ { code = !code }
	generated || code { next }
	FILENAME ~ /\.md$/ && (/^ *\|/ || /\]\(|https?:/) { next }
	FILENAME ~ /\.(ts|tsx|py)$/ { next }
	FILENAME ~ /\.go$/ && (!/^[ \t]*\/\// || /^[ \t]*\/\/(go:|export|nolint)/ || /https?:/) { next }
	width($0) > 100 { printf "%s:%d: %d columns, at most 100\n", FILENAME, FNR, width($0); bad = 1 }
	END { exit bad }
' "${files[@]}" || failed=1
exit $failed
