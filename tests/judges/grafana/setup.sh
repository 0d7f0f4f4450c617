#!/bin/bash
# Installs Grafana's own types of dashboards (@grafana/schema, Apache 2.0) and the compiler of
# TypeScript that holds files against them, from the npm registry, into target/judges (45 MB).
# Grafana itself is under the AGPL and in none of the registries that are used here.
. "$(dirname "$(readlink -f "$0")")/../install.sh"
command -v node >/dev/null || debian nodejs
command -v npm >/dev/null || debian npm
mkdir -p "$judges/grafana"
npm install --silent --no-save --ignore-scripts --prefix "$judges/grafana" \
    @grafana/schema@13.2.3 typescript@5.9.3
