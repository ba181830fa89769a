#!/usr/bin/env python3
"""Runs what takes too long for the suite, and keeps what it said.

    tests/long_runs.py BUILD [--only REGEX] [--json FILE]         FILE: tests/long_runs.json
    tests/long_runs.py --check [--json FILE]

Each line of tests/long_runs.txt is a NAME, variables as NAME=VALUE, and a test as ctest names it,
or a program of BUILD with its arguments. FILE gets an entry for each run that ends: the command,
its status, the last lines that count what was run, seconds, the processor and the commit. Entries
of others stay. --check runs nothing: it compares FILE with the list.

Exit status: 0; 1 if a run failed or ran no test, or with --check an entry is missing, is of another
command, or has failed; 2 for a BUILD or a list that can't be used."""
import argparse, json, os, pathlib, re, subprocess, sys, time, typing

from cpu_name import cpu_name

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIST = ROOT / "tests/long_runs.txt"
COUNTS = re.compile(r"^\[  (?:PASSED|SKIPPED|FAILED)\s*\] \d+ tests?.*|^\d[\d,]* \w+.*", re.M)


def stop(sentence):
    print(f"long_runs.py: {sentence}", file=sys.stderr)
    sys.exit(2)


class Listed(typing.NamedTuple):
    name: str
    environment: dict
    words: list  # the test, or a program and its arguments

    def command(self):
        return " ".join([f"{n}={v}" for n, v in self.environment.items()] + self.words)


def read_list():
    found = []
    for number, line in enumerate(LIST.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, *words = line.split()
        environment = {}
        while words and re.match(r"[A-Z_]+=", words[0]):
            variable, value = words.pop(0).split("=", 1)
            environment[variable] = value
        if not words:
            stop(f"{LIST}:{number}: expected a name and a test or a program, got '{line}'")
        found.append(Listed(name, environment, words))
    return found


def tests_of(build):
    """{name: (command, environment)} of all tests of a build."""
    listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True,
                            capture_output=True, text=True).stdout
    found = {}
    for test in json.loads(listed)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        found[test["name"]] = (test.get("command"), dict(
            entry.split("=", 1) for entry in properties.get("ENVIRONMENT", [])))
    return found


def run(listed, build, tests):
    """The entry of a run."""
    first, *arguments = listed.words
    command, environment = tests.get(first, (None, {}))
    if not command and (build / first).is_file():
        command = [str((build / first).resolve())]
    if not command:
        stop(f"{build} has no test and no program {first}: build it, or name another folder")
    print(f"{listed.name}: {listed.command()}", flush=True)
    begun = time.monotonic()
    state = commit()
    done = subprocess.run([*command, *arguments], cwd=build, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT,
                          env={**os.environ, "RC_PARAMS": "seed=1", **environment,
                               **listed.environment})
    text = done.stdout.decode(errors="replace")
    said = [match.group().strip() for match in COUNTS.finditer(text)][-3:]
    passed = [line for line in said if "PASSED" in line]
    ran = any(re.search(r"[1-9]", line.split("]")[-1]) for line in passed or said)
    if done.returncode != 0 or not ran:
        print(text[-6000:])
    print("  " + "\n  ".join([f"status {done.returncode}", *said]), flush=True)
    return {"command": listed.command(), "status": done.returncode if ran else 1, "said": said,
            "seconds": round(time.monotonic() - begun), "cpu": cpu_name(), "commit": state}


def commit():
    return subprocess.run(["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"],
                          cwd=ROOT, capture_output=True, text=True).stdout.strip() or "unknown"


def read_entries(file):
    """{name: entry} of a file; none where there is no file yet."""
    if not file.is_file():
        if not file.absolute().parent.is_dir():
            stop(f"--json {file}: its folder is not there")
        return {}
    try:
        entries = json.loads(file.read_text())
        for entry in entries.values():
            entry["command"], entry["status"]
        return entries
    except (ValueError, KeyError, TypeError, AttributeError):
        stop(f"--json {file}: it is no file of this program. Name another, or remove it")


def check(file, wanted):
    """The exit status."""
    entries, status = read_entries(file), 0
    for listed in wanted:
        entry = entries.get(listed.name)
        fault = ("was not run" if entry is None
                 else "is of another command" if entry["command"] != listed.command()
                 else f"ended with status {entry['status']}" if entry["status"] != 0 else None)
        if fault is not None:
            status = 1
            print(f"{file}: {listed.name} {fault}. To run it: tests/long_runs.py build/dev "
                  f"--only '^{listed.name}$'")
    for name in entries.keys() - {listed.name for listed in wanted}:
        status = 1
        print(f"{file}: {name} is not in {LIST}: take it out")
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path)
    parser.add_argument("--only", default="", help="runs whose names have this")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "tests/long_runs.json")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    try:
        wanted = [listed for listed in read_list() if re.search(given.only, listed.name)]
    except re.error as e:
        stop(f"--only {given.only}: it is no regular expression: {e}")
    if not wanted:
        stop(f"no run of {LIST} fits '{given.only}'")
    if given.check:
        sys.exit(check(given.json, read_list()))
    if given.build is None or not given.build.is_dir():
        stop("name the folder of a build, as build/dev")
    tests, status, entries = tests_of(given.build), 0, read_entries(given.json)
    for listed in wanted:
        entry = entries[listed.name] = run(listed, given.build, tests)
        made = given.json.with_name(given.json.name + ".part")
        made.write_text(json.dumps(dict(sorted(entries.items())), indent=2) + "\n")
        os.replace(made, given.json)
        status |= entry["status"] != 0
    sys.exit(int(status))


if __name__ == "__main__":
    main()
