#!/bin/bash
# check.sh s3|gs|az <RULES: see check.py.
here=$(dirname "$(readlink -f "$0")")
exec timeout 60 "$here/../../../target/judges/lifecycle/bin/python" "$here/check.py" "$@"
