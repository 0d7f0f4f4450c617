#!/bin/bash
# run.sh ENGINE DIR "SQL"...: asks an engine (duckdb, polars, clickhouse, datafusion, spark) about
# the tables of an export. Prints a JSON list of rows for each query, a line each.
set -u
here=$(dirname "$(readlink -f "$0")")
judges=$here/../../../target/judges
case "${1-}" in
duckdb | polars) venv=parquet ;;
*) venv=${1-} ;;
esac
exec timeout 300 "$judges/$venv/bin/python" "$here/query.py" "$@"
