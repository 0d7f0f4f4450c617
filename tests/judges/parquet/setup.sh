#!/bin/bash
# Installs readers of Parquet into target/judges: 150 MB, from the Python package index.
set -euo pipefail
root=$(dirname "$(readlink -f "$0")")/../../..
judges=$root/target/judges
mkdir -p "$judges"
[ -x "$judges/parquet/bin/python" ] || python3 -m venv "$judges/parquet"
"$judges/parquet/bin/pip" install -q duckdb==1.5.5 polars==2.1.0 pytz
