#!/usr/bin/env bash
# build.sh DIR: fetches SimGrid's source distribution with pip and builds its C++ library and
# simgrid.cpp into DIR/simgrid_peer. Once; takes minutes, and says how far it is. Ends with 1 and a
# sentence on standard output when it cannot; DIR/log.txt says the rest.
#
# The package has no ready-made binary for every Python, and its Python bindings do not compile with
# every pybind11; the C++ library alone does, and is the faster peer.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1" && cd "$1"
[[ -x simgrid_peer && simgrid_peer -nt $here/simgrid.cpp && simgrid_peer -nt $here/traffic.hpp ]] &&
    exit 0
version=4.1
: > log.txt

give_up() { printf '%s; %s says more\n' "$1" "$PWD/log.txt" && exit 1; }

# progress LABEL: copies its input to the log; a short line of it now and then to the terminal.
progress() {
    local line next=$((SECONDS + 30)) started=$SECONDS
    [[ ! -t 2 ]] || next=0
    while IFS= read -r line; do
        printf '%s\n' "$line" >> log.txt
        ((SECONDS < next)) && continue
        if [[ -t 2 ]]; then
            next=$((SECONDS + 1))
            printf '\r%s: %.60s\033[K' "$1" "$line" >&2
        else
            next=$((SECONDS + 30))
            printf '%s: %.60s (%d s)\n' "$1" "$line" $((SECONDS - started)) >&2
        fi
    done
    [[ ! -t 2 ]] || printf '\r\033[K' >&2
}

fetch() {
    [[ -x venv/bin/pip ]] || python3 -m venv --clear venv || return 1
    [[ -f simgrid-$version.tar.gz ]] ||
        venv/bin/pip --disable-pip-version-check --retries 1 --timeout 20 download --no-deps \
            --no-binary :all: --dest . "simgrid==$version" || return 1
    tar -xzf "simgrid-$version.tar.gz"
}
build() {
    # Release with link-time optimisation, its default; without what this peer does not use.
    cmake -S "simgrid-$version" -B build -DCMAKE_BUILD_TYPE=Release -Dminimal-bindings=ON \
        -Denable_smpi=OFF -Denable_java=OFF -Denable_python=OFF -Denable_fortran=OFF \
        -Denable_model-checking=OFF -Denable_sthread=OFF -Denable_debug=OFF &&
        cmake --build build --target simgrid --parallel "$(nproc)"
}
compile() {
    "${CXX:-c++}" -std=c++17 -O3 -I "simgrid-$version/include" -I build/include \
        "$here/simgrid.cpp" -o simgrid_peer.new -L build/lib -lsimgrid \
        -Wl,-rpath,"$PWD/build/lib" && mv simgrid_peer.new simgrid_peer
}

if [[ ! -f build/lib/libsimgrid.so ]]; then
    command -v python3 > /dev/null ||
        give_up "SimGrid $version cannot be fetched without python3 and its venv module"
    fetch 2>&1 | progress "fetching SimGrid" ||
        give_up "SimGrid $version could not be fetched with pip: is the network there?"
    build 2>&1 | progress "building SimGrid" || give_up "SimGrid $version could not be built"
fi
compile >> log.txt 2>&1 || give_up "the program of SimGrid $version could not be built"
