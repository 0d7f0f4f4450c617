#!/bin/bash
# Installs KernelShark, its library's headers, an X server without a screen, and what takes pictures
# of it: 250 MB, from Debian. Builds `entries` into target/judges.
. "$(dirname "$(readlink -f "$0")")/../install.sh"
debian kernelshark libkshark-dev libjson-c-dev gcc libc6-dev xvfb imagemagick
mkdir -p "$judges/kernelshark"
gcc -O1 -I/usr/include/kernelshark -o "$judges/kernelshark/entries" \
    "$here/kernelshark/entries.c" -lkshark
