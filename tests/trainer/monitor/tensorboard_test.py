"""Reads what gx::TensorBoard writes by TensorBoard's own reader, beside metrics.jsonl of that run.

usage: tensorboard_test.py TEST_PROGRAM PYTHON

PYTHON is an interpreter that has PyPI's tensorboard; without it this prints "skipped: ...".
"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile


def in_float(x):
    return math.nan if x is None else struct.unpack("<f", struct.pack("<f", x))[0]


def expect_same(what, found, wanted):
    same = len(found) == len(wanted) and all(
        a == b or (math.isnan(a[1]) and math.isnan(b[1]) and a[0] == b[0])
        for a, b in zip(found, wanted))
    if not same:
        sys.exit(f"{what}: TensorBoard read {found}, and metrics.jsonl has {wanted}")


def check(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(os.path.join(folder, "board"),
                             size_guidance={"scalars": 0}).Reload()
    with open(os.path.join(folder, "metrics.jsonl")) as lines:
        events = [json.loads(line) for line in lines]
    steps = [e for e in events if e["event"] == "step"]
    epochs = [e for e in events if e["event"] == "epoch"]
    if [e["step"] for e in steps] != list(range(15)) or len(epochs) != 3:
        sys.exit("metrics.jsonl has not each of 15 steps and 3 epochs once")
    tags = {f"step/{name}": (steps, key, 1) for name, key in (
        ("loss_of_rank", "loss_of_rank_nats"), ("rate", "rate"), ("loss_scale", "loss_scale"),
        ("skipped", "skipped"), ("images_per_second", "images_per_second"),
        ("sent_bytes_per_second", "sent_bytes_per_second"))}
    tags |= {f"step_ms/{name}": (steps, f"{name}_seconds", 1e3) for name in (
        "compute", "exposed_communication", "input", "idle")}
    tags |= {f"epoch/{name}": (epochs, key, 1) for name, key in (
        ("train_loss", "train_loss_nats"), ("train_accuracy_pct", "train_accuracy_pct"),
        ("test_loss", "test_loss_nats"), ("test_accuracy_pct", "test_accuracy_pct"),
        ("images_per_second", "images_per_second"))}
    there = board.Tags()["scalars"]
    if missing := set(tags) - set(there):
        sys.exit(f"tags that TensorBoard does not find: {sorted(missing)}")
    for tag, (rows, key, factor) in tags.items():
        found = [(e.step, e.value) for e in board.Scalars(tag)]
        values = [None if r[key] is None else factor * r[key] for r in rows]
        wanted = [(r["step"] - (rows is epochs), in_float(x)) for r, x in zip(rows, values)]
        expect_same(tag, found, wanted)
    print(f"{len(there)} curves of {len(steps)} steps, read alike")


def main():
    program, python = sys.argv[1:]
    has = [python, "-c", "import tensorboard"]
    if not os.path.exists(python) or subprocess.run(has, capture_output=True).returncode != 0:
        print(f"skipped: {python} has no tensorboard: install it from PyPI")
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "--gtest_filter=TensorBoard.WritesTheCurves*"], check=True,
                       stdout=subprocess.DEVNULL, env=os.environ | {"GX_TENSORBOARD_TEST": folder})
        subprocess.run([python, __file__, "--check", folder], check=True)


if len(sys.argv) == 3 and sys.argv[1] == "--check":
    check(sys.argv[2])
else:
    main()
