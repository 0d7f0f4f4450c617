#!/bin/bash
# Installs babeltrace 2, and lttng-analyses into target/judges, from Debian and the Python package
# index.
. "$(dirname "$(readlink -f "$0")")/../install.sh"
debian babeltrace babeltrace2 python3-babeltrace python3-pyparsing python3-pip
if [ ! -d "$judges/la" ]; then
    new=$(mktemp -d "$judges/la.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    /usr/bin/python3 -m pip install -q --no-deps --break-system-packages --root-user-action ignore \
        --target "$new/la" lttnganalyses==0.6.1 progressbar2==3.55.0
    mv "$new/la" "$judges/la"
fi
