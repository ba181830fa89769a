#!/usr/bin/env bash
# pytorch.sh DIR [PACKAGE]...: installs PyTorch from PyPI into a virtual environment DIR/venv, once:
# 1 GB to fetch, 5 GB on the disk. Packages beside it are named as Python imports them.
# Ends with 1 and a sentence where it cannot.
set -euo pipefail
dir=$1
packages=(torch numpy "${@:2}")
mkdir -p "$dir"
python=$dir/venv/bin/python
[[ -x $python ]] && "$python" -c "import $(IFS=, && echo "${packages[*]}")" 2> /dev/null && exit 0
echo "fetching ${packages[*]} into $dir/venv, once; this takes minutes"
if ! { python3 -m venv "$dir/venv" &&
    "$python" -m pip --disable-pip-version-check install "${packages[@]}"; } > "$dir/log.txt" 2>&1
then
    echo "${packages[*]} could not be installed: is the network there? See $dir/log.txt" >&2
    exit 1
fi
