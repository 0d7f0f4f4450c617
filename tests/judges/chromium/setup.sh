#!/bin/bash
# Installs what opens pages in tests: Chromium, from the distribution, and playwright-core, which
# drives it, from the npm registry, into target/judges (12 MB).
. "$(dirname "$(readlink -f "$0")")/../install.sh"
command -v node >/dev/null || debian nodejs
command -v npm >/dev/null || debian npm
command -v chromium >/dev/null || debian chromium
mkdir -p "$judges/chromium"
npm install --silent --no-save --ignore-scripts --prefix "$judges/chromium" playwright-core@1.65.1
