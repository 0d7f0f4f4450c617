#!/bin/bash
# run.sh ENGINE DIR "SQL"...: asks an engine, duckdb or polars, about the tables of an export.
# Prints a JSON list of rows for each query, a line each.
set -u
here=$(dirname "$(readlink -f "$0")")
exec timeout 300 "$here/../../../target/judges/parquet/bin/python" "$here/query.py" "$@"
