#!/bin/bash
# analyse.sh ANALYSIS TRACE: what lttng-analyses says of a trace.
set -u
here=$(dirname "$(readlink -f "$0")")
PYTHONPATH=$here/../../../target/judges/la exec timeout 300 /usr/bin/python3 \
    "$here/lttng_analyses.py" "$@"
