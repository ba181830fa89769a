#!/usr/bin/env python3
"""Mechanical mutants of code for devices: each wait, record, bound and peer changed once.

    tests/mechanical_mutants.py PART... --results FILE
    tests/mechanical_mutants.py PART... --results FILE --check
    tests/mechanical_mutants.py PART... --list

A PART is a plugin, as plugins/cuda, or `core`: the headers of gx that queue work on a device and
wait for it, and the reducers of plugins. Of a plugin the sources are src and impl/*.ipp, and the
tests are its own; those of core are in CORE_FOLDERS and CORE_TESTS below.

Copies the tree, gives each such expression of the sources a switch, builds the tests once, with the
bounds of arrays and containers checked, and runs each of their cases in a process of its own with
one switch at a time, those that reach it, until one fails, twice in a row, and passes without the
switch. Cases that are quick and reach few mutants are first; a mutant survives when these took
--budget seconds:

    wait          a call of a function that waits       is not made, and its result is success
    record        a call that records an event          is not made
    synchronise   a barrier, or a wait of the host      is not made
    bound         <, <=, >, >=                          <=, <, >=, >
    peer          a rank that is read                   is another one

FILE gets two lines for each mutant as soon as it is known; mutants that it has are not run again,
so that an interrupted run goes on. A result has a hash of the code around its mutant, 8 lines above
and below without comments: where these have changed it is dropped. With --tests a part of the tests
is built and run: what they do not reject stays unknown. --again runs survivors again, for new tests
or a longer budget, but those listed as equivalent. tests/survivors.txt of a plugin, and
tests/testing/far/survivors.txt of core, list mutants that no test rejects, with the reason, below
the name of their file:

        NAME | REASON     NAME is a part of the mutant's name, with the hash for the line, as in
                          `5a957616: <`, which stays when lines are added above. Where the reason
                          begins with 'equivalent: ', no test could tell the mutant from the
                          source, and it does not count

--check compares FILE with it and runs nothing: mutants that were not run count as not rejected, and
the first ten are named, with the command that runs them.
--list prints the mutants.

Exit status: 0; 1 if less than 95 % were rejected or a survivor is not listed, and, but for --check,
if one was not run or an entry of the list fits none; 2 if a test fails with no switch set."""
import argparse, concurrent.futures, hashlib, json, os, pathlib, re, shutil, subprocess, sys
import tempfile, threading, time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
LEAST_PERCENT = 95
CALLS = {
    "wait": "wait wait_any wait_for follow cudaStreamWaitEvent order settle await_division finish",
    "record": "record record_on cudaEventRecord cudaEventRecordWithFlags stand_for reach_events",
    "synchronise": "GX_SYNC_BLOCK __syncwarp cudaStreamSynchronize cudaEventSynchronize "
                   "cudaEventQuery reach release_staged release_reached",
}
KIND_OF = {name: kind for kind, names in CALLS.items() for name in names.split()}
OPERATORS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
PEERS = "peer rank_ world_rank_ rank"
UNCOMPILED = "does not compile"
UNREACHED = "is reached by no test"
BINDING = re.compile(r"\bauto\s*&*\s*\[[\w, ]*$")
# Compile-time expressions, and tests that are no test of the doubles.
STATIC = re.compile(r"static_assert|alignas|constexpr \w+ \w+ =|\brequires\b|consteval|template <"
                    r"|-> std::same_as")
STATIC_IF = re.compile(r"\bif constexpr \(")
# What is outside of an array or a container ends the test; the preset asan has these checks, too.
BOUNDS = "-D_GLIBCXX_ASSERTIONS -fsanitize=bounds -fsanitize-undefined-trap-on-error"
OTHER_TESTS = re.compile(r"gpu_compile|real|compile_fail|launchers")
# Headers of core that have kernels or events, and tests that are quick and run them.
CORE_FOLDERS = ["include/gx/" + f for f in ("collective", "memory", "reducer", "trainer/rank")]
QUEUES_WORK = re.compile(r"\bEvent\b|\bStreamOrdered\b|\blaunch\(|\bqueue(_of)?\(")
CORE_TESTS = (r"testing\.far\.|collective\.(all_gather_bytes|execute|group)_"
              r"|optimizer\.weight_average_|trainer\.(rank\.|monitor\.stop_request_"
              r"|survival_(far|history|joining|test)|trainer_(faults|resume|worlds)_)"
              r"|reducer\.(error_feedback_state|multi_ring|native_all_reduce|pipeline"
              r"|rank_order_mean)_")

SWITCHES = r"""#pragma once
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wuseless-cast"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wextra"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <sys/mman.h>
namespace gx_mutants {
/// Shared with child processes, so that what a death test reaches counts.
inline std::atomic<unsigned char>* const reached = [] {
    void* const bytes = mmap(nullptr, COUNT + 1, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) std::abort();
    return static_cast<std::atomic<unsigned char>*>(bytes);
}();
inline const int current = [] {
    const char* const text = std::getenv("GX_MUTANT");
    return text == nullptr ? 0 : std::atoi(text);
}();
struct Log {
    ~Log() {
        const char* const path = std::getenv("GX_MUTANTS_REACHED");
        std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "a");
        if (file == nullptr) return;
        for (int n = 0; n <= COUNT; ++n)
            if (reached[n] != 0) std::fprintf(file, "%d\n", n);
        std::fclose(file);
    }
};
inline Log log;
constexpr bool on(int n) {
    if (std::is_constant_evaluated()) return false;
    reached[n].store(1, std::memory_order_relaxed);
    return n == current;
}
template <class T>
    requires std::is_integral_v<T>
constexpr T other(int n, T rank) {
    return on(n) ? (rank == 0 ? T(1) : T(rank - 1)) : rank;
}
/// What a call that is not made returns: success, or true where it waited for something.
template <class T>
constexpr T done() {
    if constexpr (std::is_same_v<T, bool>) return true;
    else return T();
}
enum Op { lt, le, gt, ge };
template <Op op>
struct Bound {
    int n;
};
template <class A, Op op>
struct Left {
    const A& a;
    int n;
};
template <class A, Op op>
constexpr Left<A, op> operator<(const A& a, Bound<op> bound) {
    return {a, bound.n};
}
template <class A, Op op, class B>
constexpr bool operator>(Left<A, op> left, const B& b) {
    const bool changed = on(left.n);
    if constexpr (op == lt) return changed ? left.a <= b : left.a < b;
    else if constexpr (op == le) return changed ? left.a < b : left.a <= b;
    else if constexpr (op == gt) return changed ? left.a >= b : left.a > b;
    else return changed ? left.a > b : left.a >= b;
}
}  // namespace gx_mutants
"""


AROUND = 8  # lines


class Mutant(NamedTuple):
    kind: str
    file: str   # below the project
    line: int
    begin: int  # in the file's text
    end: int
    old: str
    around: str  # a hash of the code there

    def name(self):
        text = " ".join(self.old.split())
        return f"{self.kind} {self.file}:{self.line}: {text}"[:92].rstrip()


def stop(message):
    print("mechanical_mutants.py: " + message, file=sys.stderr)
    sys.exit(2)


# ---- The sources -----------------------------------------------------------------------------


class Part(NamedTuple):
    folder: str          # of the files that its list of survivors names
    sources: list
    targets: list        # for ninja; empty: those of its tests
    tests: re.Pattern    # the names of its tests
    survivors: pathlib.Path


def part_of(name):
    name = name.rstrip("/")
    if name == "core":
        tests = "|".join([CORE_TESTS, *(rf"plugins\.{p.name}\." for p in reducer_plugins())])
        return Part("", core_sources(), [], re.compile(tests),
                    ROOT / "tests/testing/far/survivors.txt")
    if not (ROOT / name / "CMakeLists.txt").is_file():
        stop(f"'{name}' is no part: expected core, or a plugin as plugins/cuda")
    return Part(name + "/", plugin_sources(name), [f"{name}/all"],
                re.compile(re.escape(name.replace("/", ".") + ".")),
                ROOT / name / "tests/survivors.txt")


def core_sources():
    found = sorted(path for folder in CORE_FOLDERS for path in (ROOT / folder).glob("**/*.?pp"))
    found = [path for path in found if QUEUES_WORK.search(code_of(path.read_text()))]
    for folder in reducer_plugins():
        found += sorted((folder / "include").glob("**/*.?pp"))
    return [str(path.relative_to(ROOT)) for path in found]


def reducer_plugins():
    """Those that bring reducers, and no world of their own."""
    return [lists.parents[1] for lists in sorted(ROOT.glob("plugins/*/tests/reducers.hpp"))
            if not any((lists.parents[1] / "include").glob("**/world.hpp"))]


def plugin_sources(plugin):
    found = []
    for path in sorted((ROOT / plugin).glob("**/*")):
        inside = path.relative_to(ROOT / plugin)
        if path.suffix == ".ipp" or (inside.parts[0] == "src" and path.suffix in
                                     {".cu", ".cpp", ".hpp"}):
            if not {"tests", "plans", "gpu", "testing"} & set(inside.parts):
                found.append(str(path.relative_to(ROOT)))
    return found


def code_of(text):
    """The text with comments, literals and directives blanked, at their places."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    pattern = (r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
               r'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*')
    return re.sub(pattern, blank, text, flags=re.S | re.M)


def without_static_ifs(code):
    """The same with the conditions that are decided at compile time blanked."""
    for match in STATIC_IF.finditer(code):
        begin, end = match.start(), closing(code, match.end() - 1)
        code = code[:begin] + re.sub(r"[^\n]", " ", code[begin:end]) + code[end:]
    return code


def closing(code, at):
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i + 1
    return -1


def opening(code, at):
    """The bracket that the one at `at` closes."""
    depth = 0
    for i in range(at, -1, -1):
        depth += (code[i] in ")]}") - (code[i] in "([{")
        if depth == 0:
            return i
    return -1


def begin_of_postfix(code, at):
    """Where the expression begins whose last name begins at `at`, as a.b(c)->name."""
    while True:
        for mark in ("->", "::", "."):
            if code[:at].endswith(mark):
                at -= len(mark)
                break
        else:
            return at
        while at > 0 and code[at - 1] in ")]":
            at = opening(code, at - 1)
        while at > 0 and (code[at - 1].isalnum() or code[at - 1] == "_"):
            at -= 1


def follows_a_type(code, at):
    word = re.search(r"([\w>&*\]]+)\s*$", code[:at])
    return word is not None and word.group(1) not in ("return", "else", "&&", "*", "&")


def mutants_of(file):
    text = (ROOT / file).read_text()
    code, found = code_of(text), []
    lines = ["".join(line.split()) for line in code.split("\n")]
    code = without_static_ifs(code)

    def add(kind, begin, end):
        line_begin = code.rfind("\n", 0, begin) + 1
        line = code[line_begin:code.find("\n", begin)]
        if not STATIC.search(line):
            number = code.count("\n", 0, begin)
            around = "\n".join(lines[max(0, number - AROUND):number + AROUND + 1])
            found.append(Mutant(kind, file, number + 1, begin, end, text[begin:end],
                                hashlib.sha256(around.encode()).hexdigest()[:8]))

    for m in re.finditer(r"\b(" + "|".join(KIND_OF) + r")\(", code):
        begin, end = begin_of_postfix(code, m.start()), closing(code, m.end() - 1)
        after = code[end:].lstrip()
        defines = after.startswith(("{", "const", "noexcept", "override"))
        if not defines and not follows_a_type(code, begin):
            add(KIND_OF[m.group(1)], begin, end)
    for m in re.finditer(r" (<=|>=|<|>) ", code):
        if not code[:m.start()].endswith("operator"):
            add("bound", m.start() + 1, m.end() - 1)
    for m in re.finditer(r"(?<![\w.>:~+])(?:\w+(?:\.|->))*(" + "|".join(PEERS.split()) +
                         r")\b(?!\s*(?:[({\[]|=[^=]|\.|->|::|\w))", code):
        if not follows_a_type(code, m.start()) and not BINDING.search(code, 0, m.start()):
            add("peer", m.start(), m.end())
    return found


def with_switches(text, mutants, numbers):
    """The text with a switch for each mutant. Calls may hold others."""
    edits = []
    for m in mutants:
        n = numbers[m]
        if m.kind == "bound":
            edits += [(m.begin, 1, m.end, f"< gx_mutants::Bound<gx_mutants::{OPERATORS[m.old]}>"
                                          f"{{{n}}} >")]
        elif m.kind == "peer":
            edits += [(m.begin, 1, m.begin, f"gx_mutants::other({n}, "), (m.end, 0, m.end, ")")]
        else:
            type_of = " ".join(code_of(m.old).split()) if '"' not in m.old else " ".join(
                re.sub(r"//[^\n]*", "", m.old).split())
            edits += [(m.begin, 1, m.begin,
                       f"(gx_mutants::on({n}) ? gx_mutants::done<decltype({type_of})>() : "),
                      (m.end, 0, m.end, ")")]
    for begin, _, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text


# ---- The build -------------------------------------------------------------------------------


class Tests:
    """The parts' tests, built of a copy of the tree."""

    def __init__(self, place, parts, files, chosen):
        self.tree, self.parts, self.files, self.chosen = place / "tree", parts, files, chosen
        self.build = self.tree / "build/dev"
        self.left_out = set()  # mutants that do not compile

    def copy(self):
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True,
                                capture_output=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            source, target = ROOT / name, self.tree / name
            if not source.is_file() or name in self.files:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_file() or target.read_bytes() != source.read_bytes():
                shutil.copy(source, target)

    def write(self, mutants, numbers):
        header = self.tree / "gx_mutants.hpp"
        self.put(header, SWITCHES.replace("COUNT", str(len(mutants))))
        for file in self.files:
            own = [m for m in mutants if m.file == file and m not in self.left_out]
            text = with_switches((ROOT / file).read_text(), own, numbers)
            self.put(self.tree / file, f'#include "{header}"\n#line 1\n' + text)

    @staticmethod
    def put(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)

    def compile(self, mutants, numbers, jobs):
        self.copy()
        self.write(mutants, numbers)
        subprocess.run(["cmake", "--preset", "dev", "-D", f"CMAKE_CXX_FLAGS={BOUNDS}"],
                       cwd=self.tree, check=True, stdout=subprocess.DEVNULL)
        targets = [target for part in self.parts
                   for target in (not self.chosen and part.targets or self.commands([part]))]
        while True:
            done = subprocess.run(["ninja", "-C", self.build, "-k", "0", "-j", str(jobs), *targets],
                                  capture_output=True, text=True)
            if done.returncode == 0:
                return
            before = len(self.left_out)
            for path, line in re.findall(r"([^\s:]+):(\d+):\d+: error", done.stdout):
                path = os.path.normpath(self.build / path)
                self.left_out |= {m for m in mutants if m.line == int(line) and
                                  path == str(self.tree / m.file)}
            if len(self.left_out) == before:
                stop("the tests do not build:\n" + done.stdout[-3000:])
            self.write(mutants, numbers)

    def commands(self, parts=None):
        """{name: command} of all tests of `parts`; None: it is not built."""
        listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=self.build, check=True,
                                capture_output=True, text=True).stdout
        return {t["name"]: t.get("command") for t in json.loads(listed)["tests"]
                if any(part.tests.match(t["name"]) for part in parts or self.parts)
                and not OTHER_TESTS.search(t["name"]) and re.search(self.chosen, t["name"])}


def run(command, limit_s, **environment):
    """(whether it passed, seconds)."""
    begin = time.monotonic()
    child = subprocess.Popen(["timeout", "--signal=KILL", str(limit_s), *command],
                             env={**os.environ, "RC_PARAMS": "seed=1", **environment},
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True)
    return child.wait() == 0, time.monotonic() - begin


class Case(NamedTuple):
    name: str
    command: list
    seconds: float
    reached: list  # numbers of mutants


def cases_of(test, command):
    """{name: command} of the cases of a test; of one that is no GoogleTest program, itself."""
    listed = subprocess.run([*command, "--gtest_list_tests"], capture_output=True, text=True)
    suite, found = "", {}
    for line in listed.stdout.splitlines() if listed.returncode == 0 else []:
        name = line.split("#")[0].strip()
        if not line.startswith(" "):
            suite = name if name.endswith(".") else ""
        elif name and suite and "DISABLED_" not in suite + name:
            found[f"{test} {suite}{name}"] = [*command, f"--gtest_filter={suite}{name}"]
    return found or {test: command}


def measure(name, command):
    """The case, run with no switch set."""
    with tempfile.NamedTemporaryFile("r") as reached:
        passed, seconds = run(command, 1200, GX_MUTANTS_REACHED=reached.name)
        if not passed:
            stop(f"{name} fails with the unchanged sources")
        return Case(name, command, seconds, sorted(set(map(int, reached.read().split()))))


def measured(commands, place, pool):
    """The cases of all tests; of programs that were measured before, from a file in `place`."""
    kept_in = place / "cases.json"
    kept = json.loads(kept_in.read_text()) if kept_in.is_file() else {}
    found = []
    for test, command in commands.items():
        built = os.stat(command[0]).st_mtime_ns
        if kept.get(test, {}).get("built") != built:
            cases = cases_of(test, command)
            kept[test] = {"built": built, "cases": list(pool.map(measure, cases, cases.values()))}
            kept_in.write_text(json.dumps(kept))
        of_test = [Case(*case) for case in kept[test]["cases"]]
        print(f"{test} passes with the unchanged sources: {len(of_test)} cases, "
              f"{sum(c.seconds for c in of_test):.1f} s", flush=True)
        found += of_test
    return found


# ---- Results ---------------------------------------------------------------------------------


def keys_of(named):
    """{name: what a result is known by}: not the line, but the code around it."""
    keys, seen = {}, {}
    for name, around in named:
        kind, place, text = name.split(" ", 2)
        key = (kind, place.split(":")[0], re.sub(r" #\d+$", "", text), around)
        seen[key] = seen.get(key, 0) + 1
        keys[name] = (*key, seen[key])
    return keys


def read_results(path, names):
    """{name: verdict}, of mutants whose surroundings are today's."""
    lines = path.read_text().splitlines() if path.exists() else []
    verdicts = dict(zip(lines[::2], (line.strip().split(" ", 1) for line in lines[1::2])))
    in_order = sorted(verdicts, key=lambda n: (n.split(":")[0], int(n.split(":")[1])))
    known = {key: verdicts[name][1]
             for name, key in keys_of((n, verdicts[n][0]) for n in in_order).items()}
    keys = keys_of((n, m.around) for n, m in names.items())
    return {name: known[key] for name, key in keys.items() if key in known}


def result_line(name, mutant, verdict):
    return f"{name}\n    {mutant.around} {verdict}"[:len(name) + 101].rstrip() + "\n"


def write_results(path, names, results):
    path.write_text("".join(result_line(n, names[n], v) for n, v in results.items()))


def is_survivor(verdict):
    return verdict.startswith("survives") or verdict == UNREACHED


def listed_survivors(parts):
    entries = []
    for part in parts:
        file = ""
        for line in part.survivors.read_text().splitlines() if part.survivors.exists() else []:
            if line.startswith(" "):
                text, reason = line.rsplit(" | ", 1)
                entries.append((part.folder + file, text.strip(), reason.strip()))
            elif not line.startswith("#"):
                file = line.strip()
    return entries


def entries_of(name, mutant, entries):
    texts = name, re.sub(r"^.*?:\d+:", mutant.around + ":", name)
    return [e for e in entries if f" {e[0]}:" in name and any(e[1] in text for text in texts)]


def is_equivalent(name, mutant, entries):
    return any(e[2].startswith("equivalent: ") for e in entries_of(name, mutant, entries)[:1])


def report(names, results, parts, check):
    """The exit status."""
    known = {name: results[name] for name in names if name in results}
    compiled = {n: v for n, v in known.items() if v != UNCOMPILED}
    survivors = [n for n, v in compiled.items() if is_survivor(v)]
    entries, used, missing, equivalent = listed_survivors(parts), set(), 0, set()
    for name in survivors:
        fits = entries_of(name, names[name], entries)
        used.update(fits[:1])
        missing += not fits
        if is_equivalent(name, names[name], entries):
            equivalent.add(name)
        print(f"{compiled[name]}: {name}    ({fits[0][2] if fits else 'NOT LISTED'})")
    stale = [e for e in entries if e not in used]
    for e in stale:
        print(f"the list of survivors: no such mutant survives: {' | '.join(e)}")
    of_all = [n for n in names if known.get(n) != UNCOMPILED and n not in equivalent]
    for kind in [*CALLS, "bound", "peer"]:
        of = [known.get(n, "") for n in of_all if n.startswith(kind + " ")]
        print(f"{kind:12} {sum(v.startswith('rejected') for v in of):4} of {len(of):4} rejected, "
              f"{of.count('')} not known")
    rejected = len(compiled) - len(survivors)
    percent = 100 * rejected / max(len(of_all), 1)
    print(f"{rejected} of {len(of_all)} rejected ({percent:.1f} %), "
          f"{len(survivors) - len(equivalent)} survive, {missing} of them not listed, "
          f"{len(names) - len(known)} not known; {len(equivalent)} more are equivalent, "
          f"{len(known) - len(compiled)} do not compile")
    if percent < LEAST_PERCENT or missing > 0:
        return 1
    return int(not check and (len(stale) > 0 or len(known) < len(names)))


def name_unknown(unknown, command):
    for name in unknown[:10]:
        print(f"not known: {name}")
    if len(unknown) > 10:
        print(f"not known: {len(unknown) - 10} more")
    if unknown:
        print(f"Their code has changed since they were run, or is new. To run them: {command}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", metavar="PART", help="core, or plugins/NAME")
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--place", type=pathlib.Path, default=ROOT / "build/mutants")
    parser.add_argument("--only", default="", help="mutants whose name fits this pattern")
    parser.add_argument("--tests", default="", help="tests whose name fits this pattern")
    parser.add_argument("--every", type=int, default=1, help="run each n-th mutant alone")
    parser.add_argument("--jobs", type=int, default=2, help="at a time (default 2)")
    parser.add_argument("--budget", type=float, default=60, metavar="S",
                        help="seconds of tests for a mutant (default 60)")
    parser.add_argument("--again", action="store_true", help="run survivors again")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    parts = [part_of(name) for name in given.parts]
    files = [file for part in parts for file in part.sources]
    mutants = [m for file in files for m in mutants_of(file)]
    names, numbers = {}, {m: n for n, m in enumerate(mutants, 1)}
    for m in mutants:  # two of one line and text get numbers
        count = sum(name == m.name() or name.startswith(m.name() + " #") for name in names)
        names[m.name() + (f" #{count + 1}" if count else "")] = m
    if given.list:
        print("\n".join(names))
        return
    if given.results is None:
        parser.error("name the file of results: --results FILE")
    results = read_results(given.results, names)
    if not given.check:
        run_all(given, parts, files, names, numbers, results)
    status = report(names, results, parts, given.check)
    if given.check:
        name_unknown([name for name in names if name not in results],
                     f"{sys.argv[0]} {' '.join(given.parts)} --results {given.results}")
    sys.exit(status)


def run_all(given, parts, files, names, numbers, results):
    place = given.place.resolve()
    tests = Tests(place, parts, files, given.tests)
    tests.left_out = {names[n] for n, v in results.items() if v == UNCOMPILED and n in names}
    tests.compile(list(names.values()), numbers, given.jobs)
    lock = threading.Lock()
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        cases = measured(tests.commands(), place, pool)
        reaching = {}
        for case in sorted(cases, key=lambda case: case.seconds * len(case.reached)):
            for n in case.reached:
                reaching.setdefault(n, []).append(case)

        def fails(case, number):
            """Whether it fails twice in a row, or hangs, and passes with no switch, however busy
            the machine is; of what hangs, the text for it."""
            limit = max(15, 20 * case.seconds)
            for _ in range(2):
                passed, took = run(case.command, limit, GX_MUTANT=str(number))
                if passed or took >= limit:
                    break
            if passed or not run(case.command, limit)[0]:
                return None
            return ", hangs" if took >= limit else ""

        def know(name, verdict):
            with lock, given.results.open("a") as out:
                results[name] = verdict
                out.write(result_line(name, names[name], verdict))

        def try_one(name):
            number, taken, tried = numbers[names[name]], 0, 0
            of = reaching.get(number, [])
            for case in of:
                if taken > given.budget:
                    break
                if (how := fails(case, number)) is not None:
                    return know(name, f"rejected by {case.name[:67]}{how}")
                taken, tried = taken + case.seconds, tried + 1
            if not given.tests:
                know(name, f"survives {tried} of {len(of)} cases" if of else UNREACHED)

        write_results(given.results, names, results)
        for name in (n for n, m in names.items() if m in tests.left_out and n not in results):
            know(name, UNCOMPILED)
        entries = listed_survivors(parts)
        chosen = [n for i, n in enumerate(names)
                  if re.search(given.only, n) and i % given.every == 0 and
                  (n not in results or given.again and is_survivor(results[n]) and
                   not is_equivalent(n, names[n], entries))]
        list(pool.map(try_one, chosen))
        write_results(given.results, names, results)


if __name__ == "__main__":
    main()
