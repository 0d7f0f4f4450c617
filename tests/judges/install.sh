# For the setup scripts: `. install.sh`. What they install goes into $judges, or is of the
# distribution. Nothing is asked but apt, pip and npm, as this machine has them set up.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
judges=$(readlink -m "$here/../../target/judges")
mkdir -p "$judges"
export DEBIAN_FRONTEND=noninteractive

# debian PACKAGE...: those of them that are not there, with apt.
debian() {
    local package lacking=()
    for package; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' ||
            lacking+=("$package")
    done
    [ ${#lacking[@]} -gt 0 ] || return 0
    local install=(apt-get install -y -q --no-install-recommends "${lacking[@]}")
    # The lists of packages may be old, or not there.
    "${install[@]}" >/dev/null 2>&1 || { apt-get update -q >/dev/null && "${install[@]}" >/dev/null; }
}

# python DIR PACKAGE...: a virtual environment of that name, with packages of the Python index. It
# is whole or not there.
python() {
    local dir=$judges/$1
    shift
    python3 -c 'import ensurepip, venv' 2>/dev/null || debian python3 python3-venv ca-certificates
    [ -x "$dir/bin/python" ] || python3 -m venv "$dir" || { rm -rf "$dir"; return 1; }
    "$dir/bin/python" -m pip install -q "$@" || { rm -rf "$dir"; return 1; }
}
