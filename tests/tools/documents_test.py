"""README.md has what gx_plan and gx_predict print, and names options that they have.

documents_test.py README PLAN PREDICT CASES: the rows of the plan, in order, and the errors of the
score of CASES over several machines, rounded as README has them; in sims/tools/README.md, the
intervals of unseen_4.json beside it, and those of CASES and all unseen files with base and target
swapped. Every option in the section on plans, and behind ./gx plan or ./gx predict, is one of these
programs. The ratios of reductions, and all goals that they miss, are those of
reference/measured/reduce-N-ranks.json.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

readme, plan, predict, cases = map(pathlib.Path, sys.argv[1:])
text = readme.read_text()
lines = text.splitlines()


def expect(condition, what):
    if not condition:
        sys.exit(f"{readme}: {what}")


with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "plan.json"
    printed = subprocess.run(
        [plan, "--model", "ResNet-50", "--epochs", "90", "--global-batch", "2048", "--json", out],
        check=True, capture_output=True, text=True).stdout.splitlines()
    offers = json.loads(out.read_text())["offers"]
expect(len({tuple(o) for o in offers}) == 1, "the plan's offers have not the same keys")
for key in ("step_ms", "spot_dollars"):
    known = sum(o[key] is not None for o in offers)
    expect(0 < known < len(offers), f"the test needs offers with {key} and some without")
head = next(i for i, line in enumerate(printed) if line.split()[:2] == ["time", "dollars"])
front = []
for row in printed[head:]:
    if " x " not in row and front:
        break
    front.append(row)
expect(len(front) > 3, "gx_plan printed no front")
expect("    " + front[0] in lines, "the head of the plan is not README's")
begin = lines.index("    " + front[0])
for i, row in enumerate(front):
    expect(lines[begin + i] == "    " + row,
           f"line {begin + i + 1} is not what gx_plan prints:\n{row}\n{lines[begin + i].strip()}")


def options_in(part):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", part))


def help_of(program):
    return options_in(subprocess.run([program, "--help"], check=True, capture_output=True,
                                     text=True).stdout)


launcher = {"--yes", "--options"}  # of ./gx itself
known = {"plan": help_of(plan) | launcher, "predict": help_of(predict) | launcher}
section = text.split("## Plan before you rent\n")[1].split("\n## ")[0]
unknown = options_in(section) - known["plan"] - known["predict"]
expect(not unknown, f"the section on plans names options of neither program: {sorted(unknown)}")
for name, options in known.items():
    commands = re.findall(rf"\./gx {name}\b([^`\n#]*)", text)
    expect(commands, f"no ./gx {name}")
    unknown = options_in(" ".join(commands)) - options
    expect(not unknown, f"./gx {name} has no options {sorted(unknown)}")

with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "plan.json"
    subprocess.run([plan, "--json", out, "--model", "BERT-base", "--machine", "p3.2xlarge",
                    "--sequence-length", "64", "--examples", "9999", "--epochs", "3",
                    "--batch-per-gpu", "4", "--budget-dollars", "70", "--deadline-hours", "40.5"],
                   check=True, stdout=subprocess.DEVNULL)
    job = json.loads(out.read_text())
    for part in ("inputs", "offers"):
        expect(job.pop(part), f"the plan's JSON has no {part}")
    expect(job == {"model": "BERT-base", "sequence_length": 64, "examples": 9999, "epochs": 3,
                   "batch_per_gpu": 4, "micro_batches": 1, "precision": "mixed",
                   "optimizer": "sgd", "kernels": "auto", "budget_dollars": 70,
                   "deadline_hours": 40.5, "stack": "pytorch-ddp"},
           f"the plan's JSON describes another job: {job}")

with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "score.json"
    subprocess.run([predict, "--score", cases, "--json", out], check=True,
                   stdout=subprocess.DEVNULL)
    score = json.loads(out.read_text())["scored_calibration_several_machines"]
row = (f"| {score['points']} | {score['mae']:.2f} | {score['mae_formula_without_overlap']:.2f} "
       f"| {score['mae_perfect_scaling']:.2f} |")
expect(any(line.endswith(row) for line in lines), f"no table has the score: {row}")
with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "swapped.json"
    unseen = [cases.with_name(f"unseen_{i}.json") for i in range(1, 5)]
    tools = readme.parent / "sims/tools/README.md"
    for files, option in (([cases, *unseen], ["--swapped"]), ([unseen[-1]], [])):
        subprocess.run([predict, "--score", *files, *option, "--json", out], check=True,
                       stdout=subprocess.DEVNULL)
        held = json.loads(out.read_text())
        for kind in ("in_force", "equally_wide"):
            q = held[f"intervals_80_{kind}"]
            row = (f"| {100 * q['covered']:.1f} % | {100 * q['covered_least']:.1f} to "
                   f"{100 * q['covered_most']:.1f} % | {q['mean_interval_score']:.2f} | "
                   f"{q['median_width_pct']:.2f} |")
            expect(row in tools.read_text(), f"{tools} has no such intervals {kind}: {row}")

# Reductions inside a machine: each cell of the table, and a row for each goal that is missed.
plugins = readme.parent / "plugins"
of_messages = (plugins / "mpi/README.md").read_text()
of_shared_memory = (plugins / "shared_memory/README.md").read_text()


def size(count):
    return f"{count >> 20} MiB" if count >= 2**20 else f"{count >> 10} KiB"


misses, ratios = [], {}
for ranks in (2, 4):
    file = readme.parent / f"reference/measured/reduce-{ranks}-ranks.json"
    for row in json.loads(file.read_text())["rows"]:
        shares = row["reducer"].startswith("SharedMemory")
        if row["world"].startswith("mpi") and not shares:
            best = ratios.setdefault((ranks, row["peer"]), {})
            best[row["bytes"]] = max(best.get(row["bytes"], 0), row["peer_ratio"])
        misses += [f"| {ranks} | {row['world']} | `{row['reducer']}`, {row['wire']} "
                   f"| {size(row['bytes'])} | {goal['beside']} | {goal['ratio']:.2f} "
                   f"| {goal['goal']:g} |"
                   for goal in row["goals"] if shares and goal["met"] is False]
table = [line for line in of_shared_memory.splitlines() if line.startswith(("| 2 |", "| 4 |"))]
expect(misses and table == misses,
       "plugins/shared_memory/README.md has not these missed goals:\n" + "\n".join(misses))
for ranks, mpi in ((2, "Open MPI"), (4, "Open MPI"), (2, "MPICH")):
    cells = " | ".join(f"{ratio:.2f}" for count, ratio in sorted(ratios[ranks, mpi].items())
                       if count >= 2**16)
    expect(f"| {ranks} | {mpi} | {cells} |" in of_messages,
           f"plugins/mpi/README.md has not the ratios {cells} of {mpi}, {ranks} processes")
print(f"{len(front)} rows of the plan and the score are README's")
