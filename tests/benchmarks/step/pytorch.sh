#!/usr/bin/env bash
# pytorch.sh DIR: installs PyTorch from PyPI into a virtual environment DIR/venv, once: 1 GB to
# fetch, 5 GB on the disk. Ends with 1 and a sentence where it cannot.
set -euo pipefail
dir=$1
mkdir -p "$dir"
python=$dir/venv/bin/python
[[ -x $python ]] && "$python" -c 'import torch, numpy' 2> /dev/null && exit 0
echo "fetching PyTorch into $dir/venv, once; this takes minutes"
if ! { python3 -m venv "$dir/venv" &&
    "$python" -m pip --disable-pip-version-check install torch numpy; } > "$dir/log.txt" 2>&1
then
    echo "PyTorch could not be installed: is the network there? See $dir/log.txt" >&2
    exit 1
fi
