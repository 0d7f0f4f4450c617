#!/bin/bash
# Installs libfaketime, from Debian: a library that gives a program another time than the kernel's.
. "$(dirname "$(readlink -f "$0")")/../install.sh"
debian faketime
