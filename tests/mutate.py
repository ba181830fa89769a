#!/usr/bin/env python3
"""Mutation tests: apply one change at a time to gx's headers and require that a test rejects it.

    tests/mutate.py tests/coordination/mutants.txt
    tests/mutate.py tests/testing/far/mutants.txt --only "event is recorded" --jobs 1
    tests/mutate.py --check tests/*/mutants.txt     all texts are there; compiles nothing

LIST is a file of entries, with any text above the first:

    == name of the mutant
    in gx/reducer/pipeline.hpp       the header, below one of the include folders; or a header that
                                     a plugin's sources and tests include by their own folder, as
                                     plugins/cuda/src/cudnn/dnn.hpp
    by trainer_test.cpp              the test that must fail, relative to LIST
    -    if (last) record();         lines to take out: they occur once in the header
    +    record();                   lines to put there; a single + puts nothing there

Above the first entry a list may name what its tests are linked with, and how all is compiled:

    sources plugins/cuda/src/*.cpp   relative to the project; compiled once, and again where an
                                     entry changes one of them ("in plugins/cuda/src/queue.cpp")
                                     or a header that they include
    options -ffp-contract=off
    outside nccl.h $CUDA_PATH/include build/cuda-headers/nccl/include
                                     where a library's header may be, relative to the project: the
                                     first of these folders that has it is searched for headers

All texts are searched before the first compilation. Each test must pass with the unchanged headers;
its time limit with changed ones is ten times what it took, and at least a minute. Tests see a copy
of the sources, so edits of the tree do not reach a run.

Exit status: 0 if all mutants were rejected; 1 if one survived or did not compile; 2 if the list
does not fit the sources, or a test fails with unchanged headers; 130 if interrupted."""
import argparse, concurrent.futures, os, pathlib, shutil, signal, subprocess, sys, tempfile
import threading, time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBRARIES = ["gtest", "gtest_main", "rapidcheck", "fmt", "z", "xxhash", "boost_context", "pthread"]
COMPILE_LIMIT_S = 600


class Mutant(NamedTuple):
    name: str
    header: str  # as it is included
    test: str    # path below ROOT
    old: str
    new: str


class Build(NamedTuple):
    sources: list  # paths below ROOT
    options: list


def stop(message):
    print("mutate.py: " + message, file=sys.stderr)
    sys.exit(2)


def read(path):
    """The mutants of a list. Ends the program if an entry is not of the form above."""
    found = []
    for block in ("\n" + path.read_text()).split("\n== ")[1:]:
        lines = block.rstrip("\n").split("\n")
        if len(lines) < 4 or not lines[1].startswith("in ") or not lines[2].startswith("by "):
            stop(f"'{lines[0]}' of {path}: write 'in HEADER', 'by TEST' and lines of - and + below "
                 "a name.")
        old, new = ("\n".join(line[1:] for line in lines[3:] if line.startswith(sign))
                    for sign in "-+")
        test = os.path.relpath((path.parent / lines[2][3:]).resolve(), ROOT)
        found.append(Mutant(lines[0], lines[1][3:], test, old, new))
    return found


def build_of(path):
    """What the tests of a list are built from, by the lines above its first entry."""
    build = Build([], [])
    for line in path.read_text().split("\n== ")[0].split("\n"):
        word, *rest = line.split() or [""]
        if word == "options":
            build.options.extend(rest)
        if word == "outside":
            build.options.extend(["-isystem", folder_with(*rest)])
        for pattern in rest if word == "sources" else []:
            found = sorted(str(p.relative_to(ROOT)) for p in ROOT.glob(pattern))
            if not found:
                stop(f"no source of {path} is named {pattern}")
            build.sources.extend(found)
    return build


def folder_with(header, *folders):
    """The first of `folders` that holds an outside library's header. Ends the program without."""
    for folder in folders:
        place = ROOT / os.path.expandvars(folder)
        if (place / header).is_file():
            return place
    stop(f"{header} is in none of {', '.join(folders)}: install its library, or for headers of "
         "CUDA, cuDNN and NCCL run ./gx cuda-headers.")


def include_folders(tree):
    return [tree / "include", tree / "sims/include", tree / "reference/include",
            *sorted((tree / "plugins").glob("*/include")),
            *sorted((tree / "plugins").glob("*/testing/include")),
            *sorted((tree / "plugins").glob("*/testing/*/include"))]


def is_private(mutant, build):
    """Whether its header is no source, and in no include folder."""
    return mutant.header not in build.sources and not any(
        (folder / mutant.header).is_file() for folder in include_folders(ROOT))


def header_of(mutant, tree):
    """The mutant's header or source in `tree`; None if there is none."""
    places = [folder / mutant.header for folder in [*include_folders(tree), tree]]
    return next((place for place in places if place.is_file()), None)


def check(mutants, path):
    """Ends the program with every problem of the list at `path`."""
    problems = []
    for m in mutants:
        header = header_of(m, ROOT)
        if not (ROOT / m.test).is_file():
            problems.append(f"'{m.name}': there is no test {m.test}")
        if header is None:
            problems.append(f"'{m.name}': no include folder has {m.header}")
        elif (count := header.read_text().count(m.old)) != 1:
            problems.append(f"'{m.name}': its text occurs {count} times in {m.header}, not once")
        elif m.old == m.new:
            problems.append(f"'{m.name}' changes nothing in {m.header}")
    if problems:
        stop("\n  ".join([f"{path} does not fit the sources:", *problems]))


class Children:
    """Child processes, each with its descendants in a session of its own, killed as one."""

    def __init__(self):
        self.lock, self.running, self.stopped = threading.RLock(), set(), False

    def run(self, command, limit_s):
        """(exit status, output, seconds) of a command; the status is None if it ran past its limit.
        timeout(1) keeps the limit, so a killed mutate.py leaves no test that runs on; the output is
        a file, because a pipe would wait for processes that a test left behind."""
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            with self.lock:
                if self.stopped:
                    raise KeyboardInterrupt
                child = subprocess.Popen(
                    ["timeout", "--signal=KILL", str(limit_s), *map(str, command)],
                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    start_new_session=True)
                self.running.add(child)
            began = time.monotonic()
            status = child.wait()
            seconds = time.monotonic() - began
            with self.lock:
                self.running.discard(child)
                self.kill_group(child)
                if self.stopped:
                    raise KeyboardInterrupt
            output.seek(0)
            late = status in (-9, 137) and seconds >= limit_s
            return (None if late else status), output.read(), seconds

    def kill(self):
        with self.lock:
            self.stopped = True
            for child in self.running:
                self.kill_group(child)

    @staticmethod
    def kill_group(child):
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Runner:
    def __init__(self, tree, compiler, children, build):
        self.tree, self.compiler, self.children = tree, compiler, children
        self.build, self.objects = build, tree / "objects"
        self.objects.mkdir()
        self.limit_s = {}  # of a test, once it passed
        for folder in ["include", "sims", "reference", "plugins", "tests"]:
            if (ROOT / folder).is_dir():
                shutil.copytree(ROOT / folder, tree / folder)

    def compiling(self, first_folders):
        paths = [*first_folders, *include_folders(self.tree), self.tree / "tests"]
        return [self.compiler, "-std=c++20", "-O0", "-w", *self.build.options,
                *[f"-I{path}" for path in paths]]

    @staticmethod
    def object_of(source, folder):
        return folder / (source.replace("/", "_") + ".o")

    def compile_source(self, source, first_folders, folder, text=None):
        """(exit status, output). `text`: a changed copy of the source."""
        path = text or self.tree / source
        return self.children.run(
            [*self.compiling([*first_folders, (self.tree / source).parent]), "-x", "c++", "-MMD",
             "-c", path, "-o", self.object_of(source, folder)], COMPILE_LIMIT_S)[:2]

    def sources_with(self, header):
        """Sources that include a header, by what the compiler wrote."""
        def includes(source):
            written = self.object_of(source, self.objects).with_suffix(".d").read_text().split()
            return any(("/" + os.path.normpath(path)).endswith("/" + header) for path in written)
        return [s for s in self.build.sources if includes(s)]

    def compile_and_run(self, test, first_folders, limit_s, place):
        """(verdict, output, seconds of the run); a test passes, fails, hangs, does not compile.
        Objects and tests in `place` go before those of the unchanged tree."""
        program = place / "test"
        changed = place / test
        objects = [next(o for o in (self.object_of(s, place), self.object_of(s, self.objects))
                        if o.is_file()) for s in self.build.sources]
        status, output, _ = self.children.run(
            [*self.compiling(first_folders), changed if changed.is_file() else self.tree / test,
             *objects, "-o", program,
             *[f"-l{library}" for library in LIBRARIES]], COMPILE_LIMIT_S)
        if status != 0:
            return "does not compile", output, 0
        status, output, seconds = self.children.run([program], limit_s)
        return {None: "hangs", 0: "passes"}.get(status, "fails"), output, seconds

    def unchanged(self, test):
        with tempfile.TemporaryDirectory(dir=self.tree) as place:
            verdict, output, seconds = self.compile_and_run(test, [], COMPILE_LIMIT_S,
                                                            pathlib.Path(place))
            self.limit_s[test] = max(60, 10 * int(seconds))
            return verdict, output

    def mutated(self, m):
        with tempfile.TemporaryDirectory(dir=self.tree) as name:
            place = pathlib.Path(name)
            changed = place / "include" / m.header
            private = is_private(m, self.build)
            if private:  # sources and tests of its plugin are compiled from a copy
                changed = place / m.header
                plugin = pathlib.Path(*pathlib.Path(m.header).parts[:2])
                shutil.copytree(self.tree / plugin, place / plugin)
            changed.parent.mkdir(parents=True, exist_ok=True)
            changed.write_text(header_of(m, self.tree).read_text().replace(m.old, m.new))
            folders = [place / "include", *include_folders(place)]
            is_source = m.header in self.build.sources
            again = [m.header] if is_source else self.sources_with(m.header)
            for source in again:
                text = changed if is_source else place / source if private else None
                status, output = self.compile_source(source, folders, place, text)
                if status != 0:
                    return "does not compile", output
            return self.compile_and_run(m.test, folders, self.limit_s[m.test], place)[:2]


def run(mutants, runner, jobs):
    """The number of rejected mutants. Prints a line for each."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        sources = runner.build.sources
        compiled = pool.map(lambda s: runner.compile_source(s, [], runner.objects), sources)
        for source, (status, output) in zip(sources, compiled):
            if status != 0:
                runner.children.kill()
                stop(f"{source} does not compile unchanged:\n{output[-2000:]}")
        tests = sorted({m.test for m in mutants})
        for test, (verdict, output) in zip(tests, pool.map(runner.unchanged, tests)):
            if verdict != "passes":
                runner.children.kill()
                stop(f"{test} {verdict} with the unchanged headers:\n{output[-2000:]}")
            print(f"{test} passes with the unchanged headers", flush=True)
        rejected = 0
        results = zip(mutants, pool.map(runner.mutated, mutants))
        for count, (m, (verdict, output)) in enumerate(results, 1):
            rejected += verdict in ("fails", "hangs")
            text = {"fails": "rejected", "hangs": "rejected (hangs)", "passes": "SURVIVES"}.get(
                verdict, "DOES NOT COMPILE")
            print(f"[{count}/{len(mutants)}] {text:16} {m.name}", flush=True)
            if verdict == "does not compile":
                print(output[-2000:], file=sys.stderr)
        return rejected


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lists", metavar="LIST", type=pathlib.Path, nargs="+")
    parser.add_argument("--check", action="store_true",
                        help="only see whether the lists fit the sources")
    parser.add_argument("--only", default="", help="mutants whose name contains this text")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default 2)")
    parser.add_argument("--compiler", default="g++")
    arguments = parser.parse_args()
    if arguments.check:
        for path in arguments.lists:
            check(read(path.resolve()), path)
        return
    if len(arguments.lists) > 1:
        stop("name one LIST, or give --check.")
    path = arguments.lists[0]
    everything = read(path.resolve())
    check(everything, path)
    chosen = [m for m in everything if arguments.only in m.name]
    if not chosen:
        stop(f"no mutant of {path} has '{arguments.only}' in its name.")

    children = Children()

    def interrupted(*_):
        children.kill()
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as it is below nohup
            signal.signal(number, interrupted)
    try:
        with tempfile.TemporaryDirectory(prefix="gx-mutants-") as name:
            rejected = run(chosen, Runner(pathlib.Path(name), arguments.compiler, children,
                                          build_of(path.resolve())),
                           arguments.jobs)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        children.kill()
    print(f"{rejected} of {len(chosen)} rejected")
    sys.exit(rejected != len(chosen))


if __name__ == "__main__":
    main()
