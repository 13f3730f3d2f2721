#!/bin/bash
# install.sh run|bench|test: installs the missing Debian packages that are needed to run, measure or
# test pyro. If no package is missing, it prints nothing.
set -euo pipefail

command -v go >/dev/null || { echo "install Go 1.26 or newer: https://go.dev/dl/" >&2; exit 1; }

declare -A package=(
	[qemu-system-x86_64]=qemu-system-x86
	[mmdebstrap]=mmdebstrap
	[xz]=xz-utils
	[gzip]=gzip
	[gpgv]=gpgv
	[curl]=curl
)
[ "$(id -u)" = 0 ] || package+=([newuidmap]=uidmap) # users other than root build environments in a user namespace
[ "$1" = bench ] && package+=([ip]=iproute2 [node]=nodejs [npm]=npm)
[ "$1" = test ] && package+=([gcc]=gcc [g++]=g++ [git]=git [fsck.erofs]=erofs-utils [qemu-img]=qemu-utils [cpio]=cpio [mkfs.xfs]=xfsprogs [e2fsck]=e2fsprogs [debugfs]=e2fsprogs [systemd-analyze]=systemd [ip]=iproute2 [node]=nodejs [npm]=npm [python3]=python3 [tmux]=tmux [vim]=vim [less]=less [chromium-headless-shell]=chromium-headless-shell [pebble]=pebble)

PATH=$PATH:/usr/sbin:/sbin
missing=()
for program in "${!package[@]}"; do
	command -v "$program" >/dev/null || missing+=("${package[$program]}")
done
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
[ "$1" = test ] && ! compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null && missing+=(postgresql)
[ "$1" = test ] && [ ! -e /usr/include/stdio.h ] && missing+=(libc6-dev)
[ "$1" = test ] && [ ! -e /usr/lib/python3/dist-packages/grpc_tools ] && missing+=(python3-grpc-tools)
[ ${#missing[@]} -gt 0 ] || exit 0

command -v apt-get >/dev/null || { echo "apt-get is missing: install these packages yourself: ${missing[*]}" >&2; exit 1; }
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
echo "installing ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { $sudo apt-get update -q && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
	tail -20 "$log" >&2
	exit 1
fi
