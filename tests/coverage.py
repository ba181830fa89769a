#!/usr/bin/env python3
"""Lines of plugins that their tests run.

    tests/coverage.py plugins/NAME... [--results FILE] [--build BUILD]     BUILD: build/coverage
    tests/coverage.py plugins/NAME... --results FILE --check

Configures BUILD as the preset dev, with gcov's counters, builds the plugins, runs their tests and
prints each line of their headers, sources and doubles that none of them ran. tests/uncovered.txt of
a plugin lists such lines with a reason, below the name of their file:

        TEXT | REASON     TEXT is a part of the line, or of the name of its function. Where the
                          reason holds 'by chance' the line may have run

FILE gets a line for each source: how many of its lines ran, and a hash of its code, without
comments and texts; it stays as it was where a line is not listed or an entry fits none. --check
builds and runs nothing: it compares FILE with the sources of today.

Exit status: 0; 1 if a line is not listed, an entry fits no line, or less than 98 % of all lines
ran, and with --check if a source is not the one whose lines were counted; 2 if a plugin does not
build, a test fails or FILE can't be read."""
import argparse, collections, gzip, hashlib, json, os, pathlib, re, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Folders that are not measured: tests, and programs for the real libraries.
TESTS = {"tests", "contract", "compile_fail", "plans", "gpu"}
LEAST_PERCENT = 98
RECORDED = re.compile(r"(\S+): (\d+) of (\d+) lines, ([0-9a-f]{8})")
HEAD = "# Lines of sources that tests run, by tests/coverage.py: SOURCE: RAN of ALL lines, HASH\n"


def run(*command, **keywords):
    try:
        return subprocess.run([str(part) for part in command], check=True, **keywords)
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"coverage.py: {error}", file=sys.stderr)
        sys.exit(2)


def build_and_test(build, plugins):
    run("cmake", "--preset", "dev", "-B", build,
        "-D", "CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0 --coverage",
        "-D", "CMAKE_EXE_LINKER_FLAGS=-Wl,-u,__gcov_dump",  # children that end by a signal call it
        cwd=ROOT, stdout=subprocess.DEVNULL)
    for counters in build.glob("**/*.gcda"):
        counters.unlink()  # of an earlier run
    run("ninja", "-C", build, *(f"{plugin}/all" for plugin in plugins))
    names = "|".join(plugin.replace("/", r"\.") for plugin in plugins)
    # ThreadSanitizer reports gcov's own counters, in each kernel of races_test.
    run("ctest", "--test-dir", build, "-R", rf"^({names})\.",
        "-E", "gpu_compile|real|compile_fail|races_test",
        "--output-on-failure", env={**os.environ, "RC_PARAMS": "seed=1"})


def is_measured(path, plugins):
    inside = [path.relative_to(ROOT / p) for p in plugins if path.is_relative_to(ROOT / p)]
    return bool(inside) and not TESTS & set(inside[0].parts)


def counts(build, plugins):
    """{file: {line: [how often it ran, names of its functions]}}."""
    files = collections.defaultdict(dict)
    with tempfile.TemporaryDirectory() as place:
        objects = sorted(o for p in plugins for o in (build / p).glob("**/*.gcda"))
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
                if not is_measured(path, plugins):
                    continue
                names = {f["name"]: f["demangled_name"] for f in file["functions"]}
                for line in file["lines"]:
                    entry = files[path].setdefault(line["line_number"], [0, set()])
                    entry[0] += line["count"]
                    entry[1].add(names.get(line.get("function_name"), ""))
    return files


def read_list(plugin):
    entries, file, listed = [], "", ROOT / plugin / "tests/uncovered.txt"
    for line in listed.read_text().splitlines() if listed.exists() else []:
        if line.startswith(" "):
            text, reason = line.split(" | ")
            entries.append((f"{plugin}/{file}", text.strip(), reason.strip()))
        elif not line.startswith("#"):
            file = line
    return entries


def fit(part, text, functions):
    """Whether an entry's text fits a line; a brace is the whole line."""
    if part == "}":
        return text.strip() == "}"
    return part in text or any(part in function for function in functions)


def sources_of(plugins):
    """Those that are measured."""
    found = [path for plugin in plugins for path in (ROOT / plugin).glob("**/*")
             if path.suffix in (".hpp", ".ipp", ".cpp", ".cu", ".cuh", ".h")]
    return sorted(path for path in found if is_measured(path, plugins))


def hash_of(path):
    """Of the code, without comments, texts and white space."""
    code = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", path.read_text(), flags=re.S)
    return hashlib.sha256("".join(code.split()).encode()).hexdigest()[:8]


def write_results(file, plugins, counted):
    """`counted`: {source: (ran, all)} of those that have lines."""
    rows = [(path, *counted.get(path, (0, 0))) for path in sources_of(plugins)]
    file.write_text(HEAD + "".join(f"{path.relative_to(ROOT)}: {ran} of {total} lines, "
                                   f"{hash_of(path)}\n" for path, ran, total in rows))


def check(file, plugins):
    """Whether FILE is of the sources of today, and enough of their lines ran."""
    try:
        found = RECORDED.findall(file.read_text())
    except OSError as error:
        print(f"coverage.py: '{file}' can't be read: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    recorded = {name: (int(ran), int(total), code) for name, ran, total, code in found}
    today = {str(path.relative_to(ROOT)): hash_of(path) for path in sources_of(plugins)}
    changed = [name for name in sorted(today.keys() | recorded.keys())
               if name not in today or recorded.get(name, (0, 0, ""))[2] != today[name]]
    for name in changed:
        what = ("is no source any more" if name not in today else
                "has changed since" if name in recorded else "is new")
        print(f"{name} {what}: run tests/coverage.py {' '.join(plugins)} --results {file}")
    ran, total = (sum(entry[i] for entry in recorded.values()) for i in (0, 1))
    percent = 100 * ran / max(total, 1)
    print(f"{ran} of {total} lines ran ({percent:.1f} %); {len(changed)} sources to be run again")
    return not changed and percent >= LEAST_PERCENT


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("plugins", nargs="+", metavar="plugins/NAME")
    arguments.add_argument("--build", type=pathlib.Path, default=ROOT / "build/coverage")
    arguments.add_argument("--results", type=pathlib.Path, metavar="FILE")
    arguments.add_argument("--check", action="store_true")
    given = arguments.parse_args()
    build, plugins = given.build.resolve(), [p.rstrip("/") for p in given.plugins]
    if given.check and given.results is None:
        arguments.error("--check: name a file by --results")
    for plugin in plugins:
        if not (ROOT / plugin / "CMakeLists.txt").exists():
            arguments.error(f"'{plugin}' is no plugin: give a folder as plugins/cuda")
    if given.check:
        sys.exit(not check(given.results, plugins))
    build_and_test(build, plugins)
    entries = [e for plugin in plugins for e in read_list(plugin)]
    used, missing, counted = set(), 0, {}
    for path, lines in sorted(counts(build, plugins).items()):
        name = str(path.relative_to(ROOT))
        source = path.read_text().splitlines()
        counted[path] = (sum(count > 0 for count, _ in lines.values()), len(lines))
        for number, (count, functions) in sorted(lines.items()):
            if count > 0:
                continue
            text = source[number - 1]
            fits = [e for e in entries if e[0] == name and fit(e[1], text, functions)]
            used.update(fits)
            missing += not fits
            print(f"{name}:{number}: {text.strip()}    ({fits[0][2] if fits else 'NOT LISTED'})")
    stale = [e for e in entries if e not in used and "by chance" not in e[2]]
    for e in stale:
        print(f"uncovered.txt: no such line is left: {' | '.join(e)}")
    if given.results is not None and not missing and not stale:
        write_results(given.results, plugins, counted)
    ran, total = (sum(entry[i] for entry in counted.values()) for i in (0, 1))
    percent = 100 * ran / max(total, 1)
    print(f"{ran} of {total} lines ran ({percent:.1f} %), {missing} that did not are not listed")
    sys.exit(missing > 0 or len(stale) > 0 or percent < LEAST_PERCENT)


if __name__ == "__main__":
    main()
