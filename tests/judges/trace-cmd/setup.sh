#!/bin/bash
# Installs trace-cmd, from Debian.
set -euo pipefail
command -v trace-cmd >/dev/null || apt-get install -y -q trace-cmd >/dev/null
