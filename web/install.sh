#!/bin/bash
# install.sh: installs the packages of package-lock.json, if they are not installed yet.
set -euo pipefail
cd "$(dirname "$0")"
cmp -s package-lock.json node_modules/.pyro-lock && exit 0
npm ci --no-audit --no-fund --ignore-scripts >/dev/null
cp package-lock.json node_modules/.pyro-lock
