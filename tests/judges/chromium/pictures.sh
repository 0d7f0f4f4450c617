#!/bin/bash
# pictures.sh: takes the pictures of a page, docs/page.png and docs/page-phone.png, of a recording
# that it makes (shop.py, on a disk that is slowed down). It needs root, target/release and
# setup.sh.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
root=$here/../../..
bin=$root/target/release
dir=$(mktemp -d)
export ZOO_SLOW=/srv/shop/data
slow=$root/tests/zoo/slowdev.sh
daemon=
end() {
    [ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; } || true
    sh "$slow" down || true
    rmdir /srv/shop 2>/dev/null || true
    umount "$dir/bpf" 2>/dev/null || true
    rm -rf "$dir"
}
trap end EXIT
mkdir -p "$dir"/{run,state,bpf} /srv/shop
mount -t bpf nodev "$dir/bpf"
# Interrupts that are a little long are shown as well.
printf '[budget]\nper_cpu = "off"\n[interrupts]\nlonger_than = "20us"\n' >"$dir/config.toml"
sh "$slow" up 60
"$bin/flightd" --config "$dir/config.toml" --runtime-dir "$dir/run" --state-dir "$dir/state" \
    --bpffs-dir "$dir/bpf" >"$dir/log" 2>&1 &
daemon=$!
until grep -q 'ready, at' "$dir/log"; do
    kill -0 "$daemon" || { cat "$dir/log"; exit 1; }
    sleep 0.2
done
sleep 1
read -r tid _ < <(python3 "$here/shop.py" "$ZOO_SLOW")
sleep 1
"$bin/flightctl" --runtime-dir "$dir/run" page --last 6s --tid "$tid" -o "$dir/page.html"
node "$here/drive.js" "$dir/page.html" "$dir" >"$dir/found"
mv "$dir/page.png" "$dir/page-phone.png" "$root/docs/"
