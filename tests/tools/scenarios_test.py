"""sims/scenarios/README.md has what the scenarios print beside published values.

scenarios_test.py README PROGRAM...: each row of a program that has a published value is a row of
README's table, in order, with the error; the table has no other rows.
"""
import pathlib
import re
import subprocess
import sys

readme, *programs = map(pathlib.Path, sys.argv[1:])
row = re.compile(r"(?P<what>\S.*?) +(?P<published>[\d.]+) +(?P<simulated>[\d.]+) +"
                 r"(?P<error>[+-][\d.]+ (?:pt|%))")

expected = []
for program in programs:
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    rows = [r for r in map(row.fullmatch, printed.splitlines()) if r]
    if not rows:
        sys.exit(f"{program}: no row has a published value")
    expected += [f"| `{program.name}` | {r['what']} | {r['published']} | {r['simulated']} "
                 f"| {r['error']} |" for r in rows]
lines = readme.read_text().splitlines()
found = [line for line in lines if line.startswith("| `") and line.count("|") == 6]
if found != expected:
    sys.exit(f"{readme}: expected these rows of outcomes:\n" + "\n".join(expected))
print(f"{len(expected)} outcomes are README's")
