#!/bin/bash
# Installs an S3 server that keeps objects in files: @20minutes/s3rver 5.0.0 (MIT), from the npm
# registry, into target/judges (14 MB). The distribution's node runs it.
. "$(dirname "$(readlink -f "$0")")/../install.sh"
command -v node >/dev/null || debian nodejs
command -v npm >/dev/null || debian npm
mkdir -p "$judges/s3"
npm install --silent --no-save --ignore-scripts --prefix "$judges/s3" @20minutes/s3rver@5.0.0
