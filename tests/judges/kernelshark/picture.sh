#!/bin/bash
# picture.sh TRACE OUT.png [ARGUMENT...]: KernelShark, with these arguments, opens a trace.dat on a
# screen of its own, and what it shows is kept once it stands still. Fails if KernelShark ends or
# complains.
set -u
dir=$(mktemp -d)
trace=$dir/trace.dat
cp "$1" "$trace"
out=$2
shift 2
# KernelShark asks root whether that is meant: here it isn't.
as=()
if [ "$(id -u)" = 0 ]; then
    chown -R nobody "$dir"
    as=(setpriv --reuid nobody --regid nogroup --clear-groups)
fi
shark= screen=
trap 'kill $shark $screen 2>/dev/null; wait 2>/dev/null; rm -rf "$dir"' EXIT
export HOME=$dir XDG_CACHE_HOME=$dir XDG_CONFIG_HOME=$dir XDG_RUNTIME_DIR=$dir
export QT_QPA_PLATFORM=xcb LIBGL_ALWAYS_SOFTWARE=1
Xvfb -displayfd 3 -screen 0 2200x1500x24 -nolisten tcp 3>"$dir/display" 2>"$dir/screen" &
screen=$!
for _ in $(seq 100); do
    [ -s "$dir/display" ] && break
    sleep 0.1
done
DISPLAY=:$(cat "$dir/display")
export DISPLAY
"${as[@]}" kernelshark "$@" "$trace" >"$dir/said" 2>&1 &
shark=$!
# As long as a picture differs from the one before it, KernelShark is loading.
before=
same=0
for _ in $(seq 120); do
    sleep 0.5
    kill -0 $shark 2>/dev/null || break
    import -window root "$dir/now.png" 2>/dev/null || continue
    sum=$(identify -format '%# %k' "$dir/now.png")
    colours=${sum#* }
    if [ "$sum" = "$before" ] && [ "$colours" -gt 16 ]; then same=$((same + 1)); else same=0; fi
    before=$sum
    [ $same -lt 4 ] || break
done
cat "$dir/said" >&2
kill -0 $shark 2>/dev/null || { echo "KernelShark ended" >&2; exit 1; }
[ $same -ge 4 ] || { echo "KernelShark's window does not stand still" >&2; exit 1; }
# A plugin for traces of virtual machines finds none.
! grep -v kvm_combo "$dir/said" | grep -qiE 'error|fail|critical' || exit 1
convert "$dir/now.png" -trim +repage -strip -colors 128 "$out"
