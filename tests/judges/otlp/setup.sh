#!/bin/bash
# Installs rotel, a collector of OpenTelemetry, from the Python index, into target/judges.
. "$(dirname "$(readlink -f "$0")")/../install.sh"
python otlp rotel==0.0.1a15
