#!/usr/bin/env python3
"""Writes tests/optimizer/lars_fixture.hpp: where LARS, in double, moves five tensors.

Run:   python3 reference/oracle/lars_fixture.py > tests/optimizer/lars_fixture.hpp
Needs: NumPy; PyTorch and timm (PyPI) for the second opinion. The tests need the header only.

You, Gitman and Ginsburg 2017, arXiv:1708.03888, algorithm 1: for the layer l with weights w and
gradient g of the loss,

    lambda = trust * ||w|| / (||g|| + decay * ||w||)
    v = momentum * v + rate * lambda * (g + decay * w)
    w = w - v

Biases, gammas and betas have lambda 1 and no decay.

timm's Lars has the same lambda, decay included, and weight_decay 0 gives those roles lambda 1
(always_adapt=False). It differs in two things, which the argument `form` names:

    "inside"   the paper's, as above. timm has the rate outside of v, so its momentum buffers are
               multiplied by the rate of the step before over the present one
    "outside"  v = momentum * v + lambda * (g + decay * w); w = w - rate * v: timm as it is. Both
               are one where the rate stays
    "clipped"  as "outside" with min(lambda / rate, 1) for lambda: timm with trust_clip=True, the
               LARC of NVIDIA's apex, in which the rate is a bound of the layers' own rates

Its eps in the denominator is 0 here, as the paper has none. Not compared: a gradient of zeros,
where timm has lambda 1 and the paper trust * ||w|| / (decay * ||w||).
"""
import contextlib
import sys

import numpy as np

with contextlib.redirect_stdout(sys.stderr):  # what it lacks and does not need here
    from timm import __version__ as timm_version
    from timm.optim import Lars

sys.dont_write_bytecode = True
from optimizer_cases import STEPS, TENSORS, array, gradient, initial, rate, single, skipped
from torch_steps import descend, groups, parameters, tensors

momentum, decay, trust, peak = single(0.9), single(5e-3), single(0.02), 0.5


def run(form, trust):
    ws = [np.array(initial(t), dtype=np.float64) for t in range(len(TENSORS))]
    vs = [np.zeros_like(w) for w in ws]
    bounds = updates = 0
    for step in range(STEPS):
        if skipped(step):
            continue
        for t, (role, _) in enumerate(TENSORS):
            w, g = ws[t], np.array(gradient(t, step), dtype=np.float64)
            now, ratio = rate(step, peak), 1.0
            if role == "weight":
                ratio = trust * np.linalg.norm(w) / (np.linalg.norm(g) + decay * np.linalg.norm(w))
                g = g + decay * w
                if form == "clipped":
                    bounds += ratio / now > 1
                    ratio = min(ratio / now, 1.0)
            inside, outside = (now, 1.0) if form == "inside" else (1.0, now)
            vs[t] = momentum * vs[t] + inside * ratio * g
            ws[t] = w - outside * vs[t]
        updates += 1
    return np.concatenate(ws), np.concatenate(vs), updates, bounds


def timm_run(form, trust):
    optimizer = Lars(groups(decay), momentum=momentum, trust_coeff=trust, eps=0.0,
                     trust_clip=form == "clipped")
    rates = [rate(step, peak) for step in range(STEPS) if not skipped(step)]
    updates = 0

    def rescale(_):
        for w in tensors(optimizer) if form == "inside" and updates > 0 else []:
            optimizer.state[w]["momentum_buffer"] *= rates[updates - 1] / rates[updates]

    for _ in descend(optimizer, peak, rescale):
        updates += 1
    return parameters(optimizer).numpy()


w, v, updates, _ = run("inside", trust)
bounds = run("clipped", 0.5)[3]
assert 0 < bounds < 2 * updates, "of both weights some ratios are bounded, and some are not"
print(f"// Written by reference/oracle/lars_fixture.py with NumPy {np.__version__} and timm "
      f"{timm_version}; do not edit.")
print("#pragma once\n\n// clang-format off\n\nnamespace gx::testing::lars {\n")
print(f"inline constexpr int updates = {updates};")
array("parameters", w)
array("velocities", v)
print("// The largest distance of timm's parameters from NumPy's: rate inside of v, outside; and\n"
      "// clipped, with a trust of a half.")
cases = (("inside", trust), ("outside", trust), ("clipped", 0.5))
array("from_timm", [np.abs(timm_run(*c) - run(*c)[0]).max() for c in cases])
print("// The largest distance of timm's parameters, with the rate outside, from those above.\n"
      "inline constexpr double from_timm_outside = "
      f"{float(np.abs(timm_run('outside', trust) - w).max()).hex()};")
print("\n}  // namespace gx::testing::lars")
