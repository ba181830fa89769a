#!/usr/bin/env python3
"""Runs tests of plugins on CUDA's doubles in other orders: under one seed after the other.

    tests/seeds.py BUILD [--seeds 1-100] [--jobs 2] [--only REGEX] [--minutes M] [--json FILE]

Each line of plugins/*/tests/seeds.txt names a test program and the tests of it that run, as
`--gtest_filter` takes them. They are run with GX_CUDA_SEED_SHIFT set to each seed, which shifts
every order of streams, messages, blocks and threads that the doubles and the emulation draw. A
program that ends with another status than 0 is named with the seed and what it printed: so do
reports of sanitizers, in a BUILD that has them. BUILD holds the programs: `cmake --build BUILD`.

All programs run under a seed before the next seed begins. With --minutes no seed begins after so
long; how many there were is printed. A run that begins at the seed behind the last one of its file
adds to the entries of that file.

Exit status: 0; 1 if a program failed under a seed; 2 for a BUILD or a list that has none."""
import argparse, concurrent.futures, json, os, pathlib, re, shlex, subprocess, sys, time, typing

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMIT_S = 1200  # of one program


def stop(sentence):
    print(f"seeds.py: {sentence}", file=sys.stderr)
    sys.exit(2)


class Listed(typing.NamedTuple):
    """A line of a list, and the command that ctest has for its test."""
    name: str
    command: list
    tests: str


def commands(build):
    """{name: command} of all tests of a build; None: not built."""
    listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True,
                            capture_output=True, text=True).stdout
    return {t["name"]: t.get("command") for t in json.loads(listed)["tests"]}


def read_lists(build, only):
    """[Listed] of all lists."""
    found, known = [], commands(build)
    for listed in sorted(ROOT.glob("plugins/*/tests/seeds.txt")):
        for number, line in enumerate(listed.read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            words = line.split()
            if len(words) != 2:
                stop(f"{listed}:{number}: expected a program and its tests, got '{line}'")
            if not re.search(only, words[0]):
                continue
            if words[0] not in known:  # as where cuDNN's headers are missing
                print(f"seeds.py: left out, as {build} has no such test: {words[0]}")
                continue
            if not known[words[0]]:
                stop(f"{words[0]} is not built: cmake --build {build}")
            found.append(Listed(words[0], known[words[0]], words[1]))
    if not found:
        stop(f"no program of plugins/*/tests/seeds.txt fits '{only}'")
    return found


def run(listed, seed):
    """What it printed; None where it ended with 0."""
    env = dict(os.environ, GX_CUDA_SEED_SHIFT=str(seed))
    try:
        done = subprocess.run([*listed.command, f"--gtest_filter={listed.tests}",
                               "--gtest_brief=1"], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"it did not end within {LIMIT_S} s"
    text = done.stdout.decode(errors="replace")
    if done.returncode == 0 and re.search(r"^\[  PASSED  \] [1-9]", text, re.M):
        return None
    return f"status {done.returncode}\n{text[-6000:]}"


def seeds_of(text):
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if not match or int(match[2] or match[1]) < int(match[1]):
        stop(f"--seeds {text}: give one, or the first and the last, as 1-100")
    return range(int(match[1]), int(match[2] or match[1]) + 1)


def read_entries(path, build):
    """The programs of a file of the same build; none where there is no file yet."""
    if not path.is_file():
        if not path.absolute().parent.is_dir():
            stop(f"--json {path}: its folder is not there")
        return {}
    try:
        known = json.loads(path.read_text())
        if known["build"] != build:
            stop(f"--json {path}: it is of the build '{known['build']}', and this run's is "
                 f"'{build}'. Name another file")
        return dict(known["programs"])
    except (ValueError, KeyError, TypeError):
        stop(f"--json {path}: it is no file of this program. Name another, or remove it")


def entry_of(listed, before, first, done, failed):
    """What was run of a program; `before`: its entry in the file, or None."""
    if (before and before["tests"] == listed.tests and
            before["first_seed"] + before["seeds"] == first):
        first, done = before["first_seed"], before["seeds"] + done
        failed = before["failed"] + failed
    return {"tests": listed.tests, "first_seed": first, "seeds": done, "failed": failed}


def write(path, build, entries):
    made = path.with_name(path.name + ".part")
    made.write_text(json.dumps({"build": build, "programs": entries}, indent=2) + "\n")
    os.replace(made, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seeds", default="1-100", help="first and last (1-100)")
    parser.add_argument("--jobs", type=int, default=2, help="programs at once (2)")
    parser.add_argument("--only", default="", help="programs whose names have this")
    parser.add_argument("--minutes", type=float, default=0, help="begin no seed after; 0: no limit")
    parser.add_argument("--json", type=pathlib.Path,
                        help="also write there what was run; entries of other programs stay")
    options = parser.parse_args()
    if not options.build.is_dir():
        stop(f"{options.build} is no folder: name a build, as build/tsan")
    if options.jobs < 1 or options.minutes < 0:
        stop("--jobs is at least 1, and --minutes at least 0")
    programs = read_lists(options.build, options.only)
    seeds = seeds_of(options.seeds)
    entries = read_entries(options.json, options.build.name) if options.json else {}
    begun, done, failures = time.monotonic(), 0, []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for seed in seeds:
            if options.minutes and time.monotonic() - begun > 60 * options.minutes:
                break
            results = list(pool.map(lambda p: run(p, seed), programs))
            for p, text in zip(programs, results):
                if text is not None:
                    failures.append({"program": p.name, "seed": seed})
                    print(f"FAILED: GX_CUDA_SEED_SHIFT={seed} {shlex.join(p.command)} "
                          f"--gtest_filter={shlex.quote(p.tests)}\n{text}", flush=True)
            done += 1
            if options.json:
                write(options.json, options.build.name, entries | {
                    p.name: entry_of(p, entries.get(p.name), seeds[0], done,
                                     [f["seed"] for f in failures if f["program"] == p.name])
                    for p in programs})
            print(f"\rseed {seed}: {done} of {len(seeds)}, {len(failures)} failed", end="",
                  file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"{len(programs)} programs, {done} seeds from {seeds[0]}, {len(failures)} failed, "
          f"{time.monotonic() - begun:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
