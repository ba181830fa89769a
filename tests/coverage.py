#!/usr/bin/env python3
"""Lines of plugins that their tests run.

    tests/coverage.py plugins/NAME... [--build BUILD]      BUILD: build/coverage unless given

Configures BUILD as the preset dev, with gcov's counters, builds the plugins, runs their tests and
prints each line of their headers, sources and doubles that none of them ran. tests/uncovered.txt of
a plugin lists such lines with a reason, below the name of their file:

        TEXT | REASON     TEXT is a part of the line, or of the name of its function. Where the
                          reason holds 'by chance' the line may have run

Exit status: 0; 1 if a line is not listed, an entry fits no line, or less than 98 % of all lines
ran; 2 if a plugin does not build or a test fails."""
import argparse, collections, gzip, json, pathlib, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Folders that are not measured: tests, and programs for the real libraries.
TESTS = {"tests", "contract", "compile_fail", "plans", "gpu"}
LEAST_PERCENT = 98


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
        "--output-on-failure")


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


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("plugins", nargs="+", metavar="plugins/NAME")
    arguments.add_argument("--build", type=pathlib.Path, default=ROOT / "build/coverage")
    given = arguments.parse_args()
    build, plugins = given.build.resolve(), [p.rstrip("/") for p in given.plugins]
    for plugin in plugins:
        if not (ROOT / plugin / "CMakeLists.txt").exists():
            arguments.error(f"'{plugin}' is no plugin: give a folder as plugins/cuda")
    build_and_test(build, plugins)
    entries = [e for plugin in plugins for e in read_list(plugin)]
    used, missing, ran, total = set(), 0, 0, 0
    for path, lines in sorted(counts(build, plugins).items()):
        name = str(path.relative_to(ROOT))
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
    stale = [e for e in entries if e not in used and "by chance" not in e[2]]
    for e in stale:
        print(f"uncovered.txt: no such line is left: {' | '.join(e)}")
    percent = 100 * ran / max(total, 1)
    print(f"{ran} of {total} lines ran ({percent:.1f} %), {missing} that did not are not listed")
    sys.exit(missing > 0 or len(stale) > 0 or percent < LEAST_PERCENT)


if __name__ == "__main__":
    main()
