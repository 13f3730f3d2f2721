#!/bin/bash
# guest.sh ARCH: builds the guest agent and compresses it for internal/guest. If the agent has not
# changed, the file is not written, so that Go's build cache stays valid.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=$1
packed=internal/guest/files/pyro-guest-$arch
new=$(mktemp)
trap 'rm -f "$new" "$new.gz"' EXIT
CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -buildvcs=false -ldflags '-s -w -buildid=' -o "$new" ./cmd/pyro-guest
digest=$(sha256sum "$new" | cut -d' ' -f1)
[ "$digest" = "$(cat "$packed.sha256" 2>/dev/null)" ] && [ -s "$packed.gz" ] && exit 0
gzip -9nc "$new" >"$new.gz"
mv "$new.gz" "$packed.gz"
chmod 644 "$packed.gz"
echo "$digest" >"$packed.sha256"
