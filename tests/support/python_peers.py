#!/usr/bin/env python3
"""python_peers.py VENV PACKAGE...: installs PyPI packages into the virtual environment VENV, once.

Where they are not to be had it says so and ends with 0: the tests that compare with them skip."""
import os
import subprocess
import sys


def run(*command):
    """Returns what it has said where it fails, else nothing."""
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=200)
        return ""
    except (subprocess.SubprocessError, OSError) as e:
        said = getattr(e, "stderr", None) or str(e).encode()
        return said.decode(errors="replace").strip()[-300:] or "it ended with an error"


venv, *packages = sys.argv[1:]
python = os.path.join(venv, "bin", "python")
if not os.path.exists(python):
    print(run(sys.executable, "-m", "venv", venv))
for package in packages:
    if run(python, "-c", "import " + package):
        if said := run(python, "-m", "pip", "install", "-q", "--retries", "0", package):
            print(f"{package} can't be installed from PyPI: {said}")
