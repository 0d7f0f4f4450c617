#!/bin/bash
# Installs trace-cmd, from Debian.
. "$(dirname "$(readlink -f "$0")")/../install.sh"
command -v trace-cmd >/dev/null || debian trace-cmd
