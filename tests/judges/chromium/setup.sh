#!/bin/bash
# Installs what opens pages in tests: Chromium, from the distribution, and playwright-core, which
# drives it, from the npm registry, into target/judges (12 MB).
set -euo pipefail
root=$(dirname "$(readlink -f "$0")")/../../..
judges=$root/target/judges
command -v node >/dev/null || apt-get install -y -q nodejs npm >/dev/null
command -v chromium >/dev/null || apt-get install -y -q --no-install-recommends chromium >/dev/null
mkdir -p "$judges/chromium"
npm install --silent --no-save --ignore-scripts --prefix "$judges/chromium" playwright-core@1.65.1
