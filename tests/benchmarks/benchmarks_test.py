#!/usr/bin/env python3
"""Benchmarks run to their end, as short as they can: what they measure is not looked at, but each
ends with 0 and writes JSON of finite numbers, in rows where it has rows; those of gx_bench_reduce
name the pages of each side that they have a time of.

    benchmarks_test.py BUILD_FOLDER
"""
import json
import pathlib
import subprocess
import sys
import tempfile

RUNS = [
    ["step", "--only", "rows", "turns", "--models", "ResNet20", "--row-rounds", "1",
     "--rounds", "1", "--steps", "1"],
    ["reduce", "--ranks", "2", "--sizes", "1024", "--launches", "1"],
    ["image", "--rounds", "1", "--python", "/bin/true"],
    ["sim", "--no-peer", "--ranks", "64"],
]


def refuse(constant):
    raise ValueError(f"{constant} is no finite number")


def numbers(value):
    if isinstance(value, dict):
        return sum(numbers(v) for v in value.values())
    if isinstance(value, list):
        return sum(numbers(v) for v in value)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def complaints(program, arguments, folder):
    """What is wrong with a run, or nothing."""
    out = folder / "out.json"
    run = subprocess.run([program, *arguments, "--json", out], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    last = "\n".join(run.stdout.splitlines()[-5:])
    if run.returncode != 0:
        return f"ended with {run.returncode}, expected 0; it printed last:\n{last}"
    if not run.stdout.strip():
        return "printed nothing"
    try:
        measured = json.loads(out.read_text(), parse_constant=refuse)
    except (OSError, ValueError) as e:
        return f"wrote no sound JSON: {e}"
    if "rows" in measured and not measured["rows"]:
        return "measured no row"
    for row in measured["rows"] if program.name == "gx_bench_reduce" else []:
        for side in ("gx", "peer", "floor"):
            kib = row.get("pages_kib", {}).get(side)
            if (kib in (4, 2048)) != (row[f"{side}_us"] is not None):
                return f"a row has pages of {kib} KiB for {side}: {row}"
    return "" if numbers(measured) > 0 else "its JSON holds no number"


def main():
    build = pathlib.Path(sys.argv[1])
    ran = failed = 0
    for name, *arguments in RUNS:
        program = build / f"gx_bench_{name}"
        if not program.exists():
            print(f"gx_bench_{name}: not built here")
            continue
        with tempfile.TemporaryDirectory() as folder:
            wrong = complaints(program, arguments, pathlib.Path(folder))
        print(f"gx_bench_{name} {' '.join(arguments)}: {wrong or 'ok'}")
        ran += 1
        failed += bool(wrong)
    if ran == 0:
        print("skipped: no benchmark is built here")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
