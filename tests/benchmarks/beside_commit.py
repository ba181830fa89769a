#!/usr/bin/env python3
"""Measures benchmarks of gx beside those of an older commit, in turns, on one machine.

    tests/benchmarks/beside_commit.py COMMIT [--only NAME ...] [--turns 3] [--json FILE]

Builds the named benchmarks (threads, sim and step, unless told) of this tree and of COMMIT in
Release, COMMIT in a work tree below build/beside, and runs them in turns: old, new, new, old, ...
so that a machine that grows slower slows both. A row that both print is compared by medians of the
turns: speed is 1 where they are as fast, above 1 where this tree is faster. Both programs run
without peers, which would only add time. What other processes took of the cores is printed: more
than 3 % and the ratios are rough.

`--only predictions` prints instead how far both trees' predictions of published results are off,
also on publications held out, by one procedure: that of `gx_predict --hold-out source`. It takes a
quarter of an hour, and COMMIT has to be older than that procedure.

Exit status: 0, also where rows are slower (they are named); 1 if a benchmark fails; 2 for a commit
that git does not know, or that has none of the benchmarks."""
import argparse, json, os, pathlib, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests'))
from cpu_name import cpu_name  # noqa: E402

SLOWER = 0.95  # of before; what a row varies between turns of one program
BENCHMARKS = {
    'threads': [],
    'sim': ['--no-peer'],
    'step': ['--only', 'turns'],
}


PREDICTIONS = 'predictions'  # alone, and not unless told


def fail(sentence):
    print(f'beside_commit.py: {sentence}', file=sys.stderr)
    sys.exit(2)


def run(*command, cwd=ROOT):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        print(f'beside_commit.py: {command[0]} ends with {done.returncode}', file=sys.stderr)
        sys.exit(1)
    return done.stdout


def git(*arguments):
    return subprocess.run(['git', '-C', ROOT, *arguments], capture_output=True, text=True)


def checkout(commit):
    """The folder of a work tree at `commit`, made once."""
    known = git('rev-parse', '--verify', '--quiet', f'{commit}^{{commit}}')
    if known.returncode:
        fail(f'git knows no commit {commit!r}; expected a hash, a branch or a tag of this tree')
    name = known.stdout.strip()[:12]
    folder = ROOT / 'build' / 'beside' / name
    if not folder.exists():
        git('worktree', 'prune')
        added = git('worktree', 'add', '--detach', str(folder), name)
        if added.returncode:
            fail(f'no work tree of {name} in {folder}: {added.stderr.strip()}')
    return name, folder


def has_benchmark(tree, name):
    folder = tree / 'tests' / 'benchmarks'
    return (folder / f'{name}.cpp').exists() or (folder / name / f'{name}.cpp').exists()


def build(tree, names):
    """Programs of `names` in `tree`, by name."""
    folder = tree / 'build' / 'release'
    targets = [f'gx_bench_{name}' for name in names]
    print(f'building {", ".join(targets)} in {folder}', flush=True)
    run('cmake', '--preset', 'release', cwd=tree)
    run('cmake', '--build', folder, '--target', *targets, cwd=tree)
    return {name: folder / f'gx_bench_{name}' for name in names}


def options(program, wanted):
    """Those of `wanted` that the program knows: an older one may lack some."""
    text = subprocess.run([program, '--help'], capture_output=True, text=True).stdout
    known = bool(wanted) and wanted[0] in text
    return wanted if known else []


def rows(name, result):
    """What a benchmark printed as JSON: {row: units a second}."""
    if name == 'threads':
        return {f'threads {c["reducer"]}, gradients': 1e3 / c['milliseconds']
                for c in result['cases']}
    if name == 'sim':
        return {f'sim {c["name"]}, {c["ranks"]} ranks, {c["interface"]}, messages':
                c['messages_per_cpu_second'] for c in result['cases']
                if c['messages_per_cpu_second'] > 0}
    return {f'step {result["model"]} batch {result["batch"]}, {what}, images': result[key]
            for what, key in (('one process', 'gx_images_per_second'),
                              ('direct convolutions', 'gx_direct_images_per_second'),
                              ('two ranks', 'two_rank_images_per_second')) if key in result}


def cpu_seconds():
    """Seconds that all cores worked since the machine began, and that children of this worked."""
    user, nice, system = (int(x) for x in open('/proc/stat').readline().split()[1:4])
    times = os.times()
    own = times.children_user + times.children_system + times.user + times.system
    return (user + nice + system) / os.sysconf('SC_CLK_TCK'), own


def measure(program, arguments):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / 'rows.json'
        run(program, *arguments, '--json', file, cwd=program.parents[2])
        return json.loads(file.read_text())


def compare_predictions(commit, old_tree, here):
    """Mean absolute errors of both trees on the published results of this one, in points."""
    if not (old_tree / 'sims/include/gx/sim/predict/fit.hpp').exists():
        fail(f'{commit} holds out publications by the procedure of this tree, or predicts nothing; '
             'name a commit that has sims/include/gx/sim/predict/fit.hpp')
    cases = ROOT / 'reference/published/cases.json'
    print('building both', flush=True)
    before = old_tree.parent / f'held_out_{commit}'
    run('g++', '-std=c++20', '-O2', '-Iinclude', '-Isims/include',
        *(f'-I{folder}' for folder in sorted(old_tree.glob('plugins/*/include'))),
        ROOT / 'tests/benchmarks/beside_commit/held_out_before.cpp', '-o', before,
        '-lfmt', '-lz', '-lboost_context', '-pthread', cwd=old_tree)
    run('cmake', '--preset', 'release')
    run('cmake', '--build', ROOT / 'build/release', '--target', 'gx_predict')
    print(f'holding out each publication: {commit}', flush=True)
    errors = {'before': json.loads(run(before, cases))}
    found = []
    for hold_out in ([], ['--hold-out', 'source']):
        print(f'{" ".join(["score:", *hold_out])} {here}', flush=True)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / 'score.json'
            run(ROOT / 'build/release/gx_predict', '--score', cases, '--json', file, *hold_out)
            found.append(json.loads(file.read_text()))
    several = 'scored_calibration_several_machines'
    errors['now'] = {'points': found[0][several]['points'],
                     'in_force': found[0][several]['mae'],
                     'nothing_fitted': found[0]['nothing_fitted_several_machines']['mae'],
                     'held_out_nested': found[1][several]['mae']}
    print(f'\nmean absolute error of efficiency, percentage points; {commit} and {here}')
    for key, what in (('points', 'measurements on several machines'),
                      ('in_force', 'constants in force'),
                      ('nothing_fitted', 'nothing fitted: every constant at its prior'),
                      ('held_out_nested', 'each publication held out, nested')):
        print(f'{what:48} {errors["before"][key]:8.4g} {errors["now"][key]:8.4g}')
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('commit', help='what this tree is compared with')
    parser.add_argument('--only', nargs='+', metavar='NAME', default=list(BENCHMARKS),
                        choices=[*sorted(BENCHMARKS), PREDICTIONS],
                        help=', '.join([*BENCHMARKS, 'or ' + PREDICTIONS + ' alone']))
    parser.add_argument('--turns', type=int, default=3, help='runs of each program (3)')
    parser.add_argument('--json', type=pathlib.Path, help='also write the ratios there')
    given = parser.parse_args()
    if given.turns < 1:
        fail(f'--turns is {given.turns}; expected 1 or more')
    if given.json and not given.json.resolve().parent.is_dir():
        fail(f'--json {given.json}: its folder does not exist; create it, or name another')
    if PREDICTIONS in given.only and len(given.only) > 1:
        fail(f'--only {" ".join(given.only)}: {PREDICTIONS} are compared alone')
    commit, old_tree = checkout(given.commit)
    here = git('describe', '--always', '--dirty').stdout.strip()
    if given.only == [PREDICTIONS]:
        errors = compare_predictions(commit, old_tree, here)
        if given.json:
            given.json.write_text(json.dumps(
                {'benchmark': 'beside_commit', 'before': commit, 'now': here,
                 'error_points': errors}, indent=2) + '\n')
        return
    names = [name for name in given.only if has_benchmark(old_tree, name)]
    for name in given.only:
        if name not in names:
            print(f'{commit} has no benchmark {name}: left out')
    if not names:
        fail(f'{commit} has none of {", ".join(given.only)}; name a later commit')
    programs = {'old': build(old_tree, names), 'new': build(ROOT, names)}

    samples = {}  # (name, row) -> {'old': [...], 'new': [...]}
    began, (busy, own) = time.time(), cpu_seconds()
    for turn in range(given.turns):
        for name in names:
            for side in ('old', 'new') if turn % 2 == 0 else ('new', 'old'):
                program = programs[side][name]
                print(f'turn {turn + 1} of {given.turns}: {side} {name}', flush=True)
                result = measure(program, options(program, BENCHMARKS[name]))
                for row, rate in rows(name, result).items():
                    samples.setdefault(row, {}).setdefault(side, []).append(rate)
    busy_after, own_after = cpu_seconds()
    others = 100 * ((busy_after - busy) - (own_after - own))
    others /= (time.time() - began) * os.cpu_count()

    print(f'\n{cpu_name()}, {os.cpu_count()} cores; {commit} and {here}; medians of '
          f'{given.turns} turns; units a second')
    print(f'{"row":86} {"before":>12} {"now":>12}  speed (turns)')
    out = []
    for row, both in samples.items():
        if set(both) != {'old', 'new'}:
            print(f'{row:86} only in {commit if "old" in both else here}')
            continue
        before, now = (statistics.median(both[side]) for side in ('old', 'new'))
        turns = [new / old for old, new in zip(both['old'], both['new'])]
        out.append({'row': row, 'before': before, 'now': now, 'speed': now / before,
                    'least_of_turns': min(turns), 'most_of_turns': max(turns)})
        print(f'{row:86} {before:12.5g} {now:12.5g}  {now / before:.2f} '
              f'({min(turns):.2f} to {max(turns):.2f})')
    slower = [r['row'] for r in out if r['speed'] < SLOWER]
    print(f'{len(slower)} of {len(out)} rows slower than {SLOWER} of before'
          + ''.join(f'\n    {row}' for row in slower))
    print(f'others had {max(others, 0):.1f} % of the cores'
          + ('; read these ratios as rough' if others > 3 else ''))
    if given.json:
        given.json.write_text(json.dumps(
            {'benchmark': 'beside_commit', 'cpu': cpu_name(), 'cores': os.cpu_count(),
             'before': commit, 'now': here, 'turns': given.turns,
             'other_load_pct': round(max(others, 0), 2), 'rows': out}, indent=2) + '\n')


if __name__ == '__main__':
    main()
