#!/usr/bin/env python3
"""Coverage of the emulated grid and of the CUDA runtime's double by the plugin's tests.

    plugins/cuda/tests/coverage.py [BUILD]      BUILD: a folder, build/coverage unless given

Configures BUILD as the preset dev, with gcov's counters, builds the plugin, runs its tests and
prints each line of the measured folders that none of them ran. uncovered.txt beside this file lists
such lines with a reason, below the name of their file:

        TEXT | REASON     TEXT is a part of the line, or of the name of its function

Exit status: 0; 1 if a line is not listed, an entry fits no line, or less than 98 % of all lines
ran; 2 if the plugin does not build or a test fails."""
import collections, gzip, json, pathlib, subprocess, sys, tempfile

PLUGIN = pathlib.Path(__file__).resolve().parents[1]
ROOT = PLUGIN.parents[1]
MEASURED = ["testing/emulation", "testing/runtime"]
LEAST_PERCENT = 98


def run(*command, **keywords):
    try:
        return subprocess.run([str(part) for part in command], check=True, **keywords)
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"coverage.py: {error}", file=sys.stderr)
        sys.exit(2)


def build_and_test(build):
    run("cmake", "--preset", "dev", "-B", build,
        "-D", "CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0 --coverage",
        "-D", "CMAKE_EXE_LINKER_FLAGS=-Wl,-u,__gcov_dump",  # children that end by a signal call it
        cwd=ROOT, stdout=subprocess.DEVNULL)
    for counters in build.glob("plugins/cuda/**/*.gcda"):
        counters.unlink()  # of an earlier run
    run("ninja", "-C", build, "plugins/cuda/all")
    run("ctest", "--test-dir", build, "-R", "plugins.cuda", "-E", "gpu_compile",
        "--output-on-failure")


def is_measured(path):
    return any(path.is_relative_to(PLUGIN / folder) for folder in MEASURED) and \
        "tests" not in path.parts[-2:]


def counts(build):
    """{file: {line: [how often it ran, names of its functions]}}."""
    files = collections.defaultdict(dict)
    with tempfile.TemporaryDirectory() as place:
        objects = sorted(build.glob("plugins/cuda/**/*.gcda"))
        for count, counters in enumerate(objects):
            folder = pathlib.Path(place) / str(count)
            folder.mkdir()
            run("gcov", "--json-format", counters, cwd=folder, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
        for result in pathlib.Path(place).glob("*/*.gcov.json.gz"):
            report = json.loads(gzip.open(result).read())
            at = pathlib.Path(report["current_working_directory"])
            for file in report["files"]:
                path = (at / file["file"]).resolve()
                if not is_measured(path):
                    continue
                names = {f["name"]: f["demangled_name"] for f in file["functions"]}
                for line in file["lines"]:
                    entry = files[path].setdefault(line["line_number"], [0, set()])
                    entry[0] += line["count"]
                    entry[1].add(names.get(line.get("function_name"), ""))
    return files


def read_list():
    entries, file = [], ""
    for line in (PLUGIN / "tests/uncovered.txt").read_text().splitlines():
        if line.startswith(" "):
            text, reason = line.split(" | ")
            entries.append((file, text.strip(), reason.strip()))
        elif not line.startswith("#"):
            file = line
    return entries


def fit(part, text, functions):
    """Whether an entry's text fits a line; a brace is the whole line."""
    if part == "}":
        return text.strip() == "}"
    return part in text or any(part in function for function in functions)


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/coverage").resolve()
    build_and_test(build)
    entries, used, missing, ran, total = read_list(), set(), 0, 0, 0
    for path, lines in sorted(counts(build).items()):
        name = str(path.relative_to(PLUGIN))
        source = path.read_text().splitlines()
        for number, (count, functions) in sorted(lines.items()):
            total += 1
            ran += count > 0
            if count > 0:
                continue
            text = source[number - 1]
            fits = [e for e in entries if e[0] == name and fit(e[1], text, functions)]
            used.update(fits)
            missing += not fits
            print(f"{name}:{number}: {text.strip()}    ({fits[0][2] if fits else 'NOT LISTED'})")
    stale = [e for e in entries if e not in used]
    for e in stale:
        print(f"uncovered.txt: no such line is left: {' | '.join(e)}")
    percent = 100 * ran / max(total, 1)
    print(f"{ran} of {total} lines ran ({percent:.1f} %), {missing} that did not are not listed")
    sys.exit(missing > 0 or len(stale) > 0 or percent < LEAST_PERCENT)


if __name__ == "__main__":
    main()
