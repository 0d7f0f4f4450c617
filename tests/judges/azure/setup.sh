#!/bin/bash
# Installs Azurite 3.37.0 (MIT), Microsoft's emulator of Azure Storage, from the npm registry, into
# target/judges. The distribution's node runs it.
. "$(dirname "$(readlink -f "$0")")/../install.sh"
command -v node >/dev/null || debian nodejs
command -v npm >/dev/null || debian npm
mkdir -p "$judges/azure"
npm install --silent --no-save --ignore-scripts --prefix "$judges/azure" azurite@3.37.0
