#!/bin/bash
# Fetches the library of the page (uPlot, MIT) from the npm registry again, and verifies it against
# SHA256SUMS. Only a change of its version needs this: a build takes the files that are here.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
version=1.6.32
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
(cd "$dir" && npm pack --silent "uplot@$version" >/dev/null && tar xzf "uplot-$version.tgz")
cp "$dir/package/dist/uPlot.iife.min.js" "$dir/package/dist/uPlot.min.css" "$here"
cp "$dir/package/LICENSE" "$here/uPlot.LICENSE"
# After a change of the version: sha256sum uPlot.* >SHA256SUMS, and read what changed.
cd "$here" && sha256sum --check SHA256SUMS
