#!/bin/bash
# Installs babeltrace 2, and lttng-analyses into target/judges, from Debian and the Python package
# index.
set -euo pipefail
root=$(dirname "$(readlink -f "$0")")/../../..
judges=$root/target/judges
mkdir -p "$judges"
apt-get install -y -q babeltrace babeltrace2 python3-babeltrace python3-pyparsing \
    python3-pip >/dev/null
[ -d "$judges/la" ] || /usr/bin/python3 -m pip install -q --no-deps --break-system-packages \
    --target "$judges/la" lttnganalyses==0.6.1 progressbar2==3.55.0
