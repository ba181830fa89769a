#!/usr/bin/env python3
"""Mutants of the coordination channel: each check, state and limit removed or changed once. For
each, its test in this folder is compiled against the changed headers and run; it must fail.

    tests/coordination/mutate.py [--compiler g++] [--only NAME]

Prints one line a mutant. Exit status 1 where one survives or does not compile, 2 where a test fails
on the unchanged headers. Takes about ten seconds a mutant."""
import argparse, pathlib, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def mutants():
    """Of mutants.txt: (name, header, test, text, replacement)."""
    for block in (HERE / "mutants.txt").read_text().split("\n== ")[1:]:
        name, header, test, *lines = block.rstrip("\n").split("\n")
        text = "\n".join(line[1:] for line in lines if line.startswith("-"))
        other = "\n".join(line[1:] for line in lines if line.startswith("+"))
        yield (name, "gx/coordination/impl/" + header.removeprefix("in "),
               test.removeprefix("by "), text, other)


def passes(compiler, test, changed=None, text=None):
    """Whether the test passes; None where it does not compile."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if changed:
            (folder / changed).parent.mkdir(parents=True)
            (folder / changed).write_text(text)
        program = folder / "test"
        compiled = subprocess.run(
            [compiler, "-std=c++20", "-O0", "-w", f"-I{folder}", f"-I{ROOT / 'include'}",
             f"-I{ROOT / 'tests'}", str(HERE / f"{test}_test.cpp"), "-o", str(program),
             "-lgtest", "-lgtest_main", "-lrapidcheck", "-lpthread"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if compiled.returncode != 0:
            print(compiled.stdout[-2000:], file=sys.stderr)
            return None
        try:
            return subprocess.run([str(program)], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, timeout=30).returncode == 0
        except subprocess.TimeoutExpired:
            return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--only", default="", help="mutants whose name holds this")
    arguments = parser.parse_args()
    chosen = [m for m in mutants() if arguments.only in m[0]]
    for test in sorted({m[2] for m in chosen}):
        if not passes(arguments.compiler, test):
            print(f"{test}_test.cpp fails on the unchanged headers")
            sys.exit(2)
    rejected = 0
    for name, file, test, old, new in chosen:
        text = (ROOT / "include" / file).read_text()
        if text.count(old) != 1:
            sys.exit(f"'{name}': its text occurs {text.count(old)} times in {file}, once expected")
        result = passes(arguments.compiler, test, file, text.replace(old, new))
        rejected += result is False
        print({True: "SURVIVED", False: "rejected", None: "DID NOT COMPILE"}[result], name,
              flush=True)
    print(f"{rejected} of {len(chosen)} rejected")
    sys.exit(rejected != len(chosen))


if __name__ == "__main__":
    main()
