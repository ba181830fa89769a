#!/usr/bin/env python3
"""Mutants of the code that queues work on a device: each wait, record and bound removed or changed
once. For each, trainer_test.cpp is compiled against the changed headers and run; it must fail.

    tests/testing/far/mutate.py [--compiler g++] [--only NAME] [--jobs N]

Prints one line a mutant, and the share that was rejected. Exit status 1 below 95 %, 2 where the
unchanged headers fail. A mutant takes the compiler about half a minute."""
import argparse, concurrent.futures, pathlib, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
LIST = pathlib.Path(__file__).with_name("mutants.txt")


def mutants():
    """Of mutants.txt: (name, header, text, replacement)."""
    found = []
    for block in LIST.read_text().split("\n== ")[1:]:
        name, header, *lines = block.rstrip("\n").split("\n")
        text = "\n".join(line[1:] for line in lines if line.startswith("-"))
        other = "\n".join(line[1:] for line in lines if line.startswith("+"))
        found.append((name, "include/gx/" + header.removeprefix("in "), text, other))
    return found


def check_texts():
    """Ends the program where a text of mutants.txt does not occur once."""
    wrong = [f"'{name}': its text occurs {count} times in {file}, once expected."
             for name, file, old, _ in mutants()
             if (count := (ROOT / file).read_text().count(old)) != 1]
    if wrong:
        sys.exit("mutate.py: " + "\n".join(wrong) + f"\nAdapt {LIST.name}.")


def snapshot(to):
    """What the test includes, so that edits of the tree do not reach a run."""
    for folder in ["include", "reference/include", "sims/include", "tests/testing/far",
                   "tests/trainer", "tests/support"]:
        shutil.copytree(ROOT / folder, to / folder)
    for plugin in (ROOT / "plugins").glob("*/include"):
        shutil.copytree(plugin, to / plugin.relative_to(ROOT))


def survives(mutant, compiler, tree):
    """None where the changed headers do not compile, else whether the test passes."""
    with tempfile.TemporaryDirectory(dir=tree) as name:
        changed = pathlib.Path(name)
        if mutant:
            _, file, old, new = mutant
            text = (tree / file).read_text()
            (changed / file).parent.mkdir(parents=True)
            (changed / file).write_text(text.replace(old, new))
        plugins = sorted((tree / "plugins").glob("*/include"))
        paths = [changed / "include", tree / "include", tree / "tests", tree / "reference/include",
                 tree / "sims/include", *plugins]
        program = changed / "test"
        compiled = subprocess.run(
            [compiler, "-std=c++20", "-O0", "-w", *[f"-I{p}" for p in paths],
             str(tree / "tests/testing/far/trainer_test.cpp"), "-o", str(program),
             "-lgtest", "-lgtest_main", "-lfmt", "-lz", "-lpthread"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if compiled.returncode != 0:
            print(compiled.stdout[-2000:], file=sys.stderr)
            return None
        try:
            return subprocess.run([str(program)], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, timeout=300).returncode == 0
        except subprocess.TimeoutExpired:
            return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--only", help="mutants whose name holds this")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    check_texts()
    with tempfile.TemporaryDirectory() as name:
        tree = pathlib.Path(name)
        snapshot(tree)
        if survives(None, arguments.compiler, tree) is not True:
            print("the unchanged headers fail")
            sys.exit(2)
        chosen = [m for m in mutants() if not arguments.only or arguments.only in m[0]]
        rejected = 0
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            results = pool.map(lambda m: survives(m, arguments.compiler, tree), chosen)
            for mutant, result in zip(chosen, results):
                verdict = {None: "does not compile", True: "SURVIVES", False: "rejected"}[result]
                rejected += result is False
                print(f"{verdict:16} {mutant[0]}", flush=True)
        share = 100 * rejected / max(1, len(chosen))
        print(f"{rejected} of {len(chosen)} rejected, {share:.0f} %")
        sys.exit(0 if share >= 95 else 1)


if __name__ == "__main__":
    main()
