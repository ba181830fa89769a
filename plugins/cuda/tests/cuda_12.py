#!/usr/bin/env python3
"""cuda_12.py PYTHON FOLDER: what clang needs of CUDA 12 to compile for sm_70, from PyPI, once.

CUDA 13 begins at sm_75. FOLDER gets headers, ptxas and libdevice, 100 MB. Where they are not to be
had it says so and ends with 0: the test that compiles with them skips."""
import glob, os, re, shutil, subprocess, sys, tempfile, zipfile

WHEELS = ["nvidia-cuda-nvcc-cu12==12.9.86", "nvidia-cuda-runtime-cu12==12.9.79",
          "nvidia-cuda-cccl-cu12==12.9.27"]
KEPT = re.compile(r"nvidia/[^/]+/((?:include|nvvm/libdevice)/.*[^/]|bin/ptxas)$")


def unpack(wheel, to):
    with zipfile.ZipFile(wheel) as files:
        for entry in files.namelist():
            match = KEPT.match(entry)
            if not match or ".." in entry:
                continue
            out = os.path.join(to, match[1])
            os.makedirs(os.path.dirname(out), exist_ok=True)
            with files.open(entry) as source, open(out, "wb") as sink:
                shutil.copyfileobj(source, sink)


python, folder = sys.argv[1:]
versions = os.path.join(folder, "versions")
wanted = "\n".join(WHEELS)
if os.path.exists(versions) and open(versions).read() == wanted:
    sys.exit(0)
shutil.rmtree(folder, ignore_errors=True)  # FOLDER is complete or not there
try:
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as made:
        wheels, toolkit = os.path.join(made, "wheels"), os.path.join(made, "toolkit")
        subprocess.run([python, "-m", "pip", "download", "-q", "--retries", "0", "--no-deps",
                        "--only-binary=:all:", "--dest", wheels, *WHEELS],
                       check=True, capture_output=True, timeout=200)
        for wheel in glob.glob(wheels + "/*.whl"):
            unpack(wheel, toolkit)
        os.chmod(os.path.join(toolkit, "bin", "ptxas"), 0o755)
        with open(os.path.join(toolkit, "versions"), "w") as file:
            file.write(wanted)
        os.rename(toolkit, folder)
except (subprocess.SubprocessError, OSError, zipfile.BadZipFile) as e:
    said = (getattr(e, "stderr", None) or str(e).encode()).decode(errors="replace").strip()
    print(f"CUDA 12 can't be had from PyPI: {said[-300:]}")
