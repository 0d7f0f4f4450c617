#!/bin/bash
# run.sh ENGINE DIR "SQL"...: asks an engine (duckdb, polars, clickhouse, datafusion, spark) about
# the tables of an export. Prints a JSON list of rows for each query, a line each.
# run.sh --fleet ENGINE LAKE <QUESTIONS: asks duckdb, clickhouse or spark about the compacted tables
# of many hosts; see fleet.py.
set -u
here=$(dirname "$(readlink -f "$0")")
judges=$here/../../../target/judges
script=query.py seconds=300
if [ "${1-}" = --fleet ]; then
    script=fleet.py seconds=1800
    shift
fi
case "${1-}" in
duckdb | polars) venv=parquet ;;
*) venv=${1-} ;;
esac
exec timeout "$seconds" "$judges/$venv/bin/python" "$here/$script" "$@"
