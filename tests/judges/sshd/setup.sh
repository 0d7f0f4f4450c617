#!/bin/bash
# Installs OpenSSH's client and server, from Debian. The tests run the server for one connection at
# a time, on pipes; the distribution may start it as a service, too.
. "$(dirname "$(readlink -f "$0")")/../install.sh"
command -v ssh ssh-keygen >/dev/null || debian openssh-client
[ -x /usr/sbin/sshd ] || debian openssh-server
