#!/usr/bin/env python3
"""profiler_trace_test.py GX_PREDICT: traces that PyTorch's profiler makes here, beside what hooks
of autograd see in the same steps and what Python reads in the same file. Skipped where PyTorch is
not installed; GX_TORCHVISION_PYTHON names another interpreter."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

python = os.environ.get("GX_TORCHVISION_PYTHON")
if python and "GX_PROFILER_TRACE_TEST" not in os.environ:
    os.environ["GX_PROFILER_TRACE_TEST"] = "1"
    os.execv(python, [python, *sys.argv])
try:
    import torch
except ImportError:
    print("skipped: no torch; GX_TORCHVISION_PYTHON may name an interpreter that has it")
    sys.exit()

from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

STEPS = 5


class Residual(nn.Module):
    """Two branches, so that gradients are not ready in the reverse order of parameters alone."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.last = nn.Linear(8, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        return self.last((x + torch.relu(self.second(x))).mean((2, 3)))


def train(micro_batches, options, path, with_optimizer=True):
    """Profiles steps into a file; returns the elements of gradients in the order of hooks, of the
    last micro-batch."""
    torch.manual_seed(1)
    model = Residual()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    ready = []
    for p in model.parameters():
        p.register_hook(lambda g: ready.append(g.numel()))
    steps = schedule(wait=1, warmup=1, active=STEPS)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, **options) as profiler:
        for _ in range(STEPS + 2):
            optimizer.zero_grad()
            for _ in range(micro_batches):
                ready.clear()
                loss = nn.functional.cross_entropy(model(torch.randn(16, 3, 24, 24)),
                                                   torch.randint(10, (16,)))
                loss.backward()
            if with_optimizer:
                optimizer.step()
            profiler.step()
    profiler.export_chrome_trace(path)
    return list(ready)


def predict(path):
    return subprocess.run([sys.argv[1], "--trace", path], capture_output=True, text=True)


def events(path, name):
    with open(path) as file:
        return [e for e in json.load(file)["traceEvents"]
                if e.get("ph") == "X" and e["name"].startswith(name)]


def inside(step, e):
    return step["ts"] <= e["ts"] and e["ts"] + e["dur"] <= step["ts"] + step["dur"]


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "step.json")
    for micro_batches in (1, 3):
        order = train(micro_batches, {"record_shapes": True}, path)
        run = predict(path)
        assert run.returncode == 0, run
        got = json.loads(run.stdout)
        parameters = sum(order)
        assert len(order) == 7 and parameters == sum(p.numel() for p in Residual().parameters())
        assert got["micro_batches"] == micro_batches, got
        assert abs(got["params_millions"] * 1e6 - parameters) < 0.5, got
        assert [g["elements"] for g in got["gradients"]] == order, (got["gradients"], order)
        shares = [g["ready"] for g in got["gradients"]]
        assert shares == sorted(shares) and 0 < shares[0] and shares[-1] <= 1, shares
        steps = events(path, "ProfilerStep#")
        assert len(steps) == STEPS, len(steps)
        median = statistics.median(s["dur"] for s in steps) * 1e-3
        assert abs(got["measured"][0]["value"] * 1e3 - median) < 1e-6 * median, (got, median)
        step = next(s for s in steps if abs(s["dur"] * 1e-3 - median) < 1e-9)
        update = sum(e["dur"] for e in events(path, "Optimizer.step#") if inside(step, e)) * 1e-3
        assert abs(got["update_ms"] - update) < 1e-6 * median, (got["update_ms"], update)
        passes = micro_batches * (got["forward_ms"] + got["backward_ms"]) + got["update_ms"]
        assert 0 < got["forward_ms"] and 0 < got["backward_ms"] and passes < median, got
        # The functions of the last backward pass, layer by layer, are a part of it.
        functions = sum(f["ms"] for f in got["backward"])
        names = {f["name"] for f in got["backward"]}
        assert {"ConvolutionBackward0", "AddmmBackward0"} <= names, names
        assert 0 < functions <= 1.5 * got["backward_ms"] + 1, (functions, got["backward_ms"])

    train(1, {}, path)  # without shapes
    run = predict(path)
    assert run.returncode == 2 and "record_shapes=True" in run.stderr, run
    train(1, {"record_shapes": True}, path, with_optimizer=False)
    run = predict(path)
    assert run.returncode == 2 and "optimizer" in run.stderr.lower(), run
print("PyTorch", torch.__version__)
