#!/usr/bin/env bash
# build.sh DIR: fetches SimGrid's source distribution with pip and builds its C++ library and
# simgrid.cpp into DIR/simgrid_peer. Once; takes minutes. DIR/log.txt says what went wrong.
#
# The package has no ready-made binary for every Python, and its Python bindings do not compile with
# every pybind11; the C++ library alone does, and is the faster peer.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1" && cd "$1"
[[ -x simgrid_peer && simgrid_peer -nt $here/simgrid.cpp && simgrid_peer -nt $here/traffic.hpp ]] &&
    exit 0
version=4.1
{
    if [[ ! -f build/lib/libsimgrid.so ]]; then
        [[ -d venv ]] || python3 -m venv venv
        compgen -G "simgrid-$version.tar.gz" > /dev/null ||
            venv/bin/pip download --no-deps --no-binary :all: --dest . "simgrid==$version"
        tar -xzf "simgrid-$version.tar.gz"
        # Release with link-time optimisation, its default; without what this peer does not use.
        cmake -S "simgrid-$version" -B build -DCMAKE_BUILD_TYPE=Release -Dminimal-bindings=ON \
            -Denable_smpi=OFF -Denable_java=OFF -Denable_python=OFF -Denable_fortran=OFF \
            -Denable_model-checking=OFF -Denable_sthread=OFF -Denable_debug=OFF
        cmake --build build --target simgrid --parallel "$(nproc)"
    fi
    "${CXX:-c++}" -std=c++17 -O3 -I "simgrid-$version/include" -I build/include \
        "$here/simgrid.cpp" -o simgrid_peer.new -L build/lib -lsimgrid -Wl,-rpath,"$PWD/build/lib"
    mv simgrid_peer.new simgrid_peer
} > log.txt 2>&1
