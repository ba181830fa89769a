#!/usr/bin/env python3
"""Writes tests/optimizer/lamb_fixture.hpp: where LAMB, in double, moves five tensors.

Run:   python3 reference/oracle/lamb_fixture.py > tests/optimizer/lamb_fixture.hpp
Needs: NumPy; PyTorch and timm (PyPI) for the second opinion. The tests need the header only.

You et al. 2020, arXiv:1904.00962, algorithm 2 with phi(z) = z: for a layer with weights w,

    m = beta1 m + (1 - beta1) g        r = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
    v = beta2 v + (1 - beta2) g^2      w = w - rate ||w|| / ||r + decay w|| (r + decay w)

Biases, gammas and betas have the plain rate and no decay. timm's Lamb is run with
max_grad_norm=None, weight_decay 0 for those roles, which with always_adapt=False gives them ratio 1
too; how far it comes out from here is written beside.
"""
import contextlib
import sys

import numpy as np

with contextlib.redirect_stdout(sys.stderr):  # what it lacks and does not need here
    from timm import __version__ as timm_version
    from timm.optim import Lamb

sys.dont_write_bytecode = True
from optimizer_cases import STEPS, TENSORS, array, gradient, initial, rate, single, skipped
from torch_steps import descend, groups, parameters

beta1, beta2, eps, decay, peak = single(0.9), single(0.999), 1 / 16, single(0.1), 0.01


def run(corrects, max_ratio):
    tensors = [np.array(initial(t), dtype=np.float64) for t in range(len(TENSORS))]
    ms, vs = ([np.zeros_like(w) for w in tensors] for _ in range(2))
    updates = 0
    for step in range(STEPS):
        if skipped(step):
            continue
        updates += 1
        for t, (role, _) in enumerate(TENSORS):
            w, g = tensors[t], np.array(gradient(t, step), dtype=np.float64)
            ms[t] = beta1 * ms[t] + (1 - beta1) * g
            vs[t] = beta2 * vs[t] + (1 - beta2) * g * g
            c1, c2 = (1 - beta1**updates, 1 - beta2**updates) if corrects else (1.0, 1.0)
            u, ratio = ms[t] / c1 / (np.sqrt(vs[t] / c2) + eps), 1.0
            if role == "weight":
                u = u + decay * w
                ratio = min(np.linalg.norm(w) / np.linalg.norm(u), max_ratio)
            tensors[t] = w - rate(step, peak) * ratio * u
    return np.concatenate(tensors), np.concatenate(ms), np.concatenate(vs), updates


def timm_run(corrects, trust_clip):
    optimizer = Lamb(groups(decay), betas=(beta1, beta2), eps=eps, bias_correction=corrects,
                     max_grad_norm=None, trust_clip=trust_clip)
    for _ in descend(optimizer, peak):
        pass
    return parameters(optimizer).numpy()


inf = float("inf")
w, m, v, count = run(True, inf)
print(f"// Written by reference/oracle/lamb_fixture.py with NumPy {np.__version__} and timm "
      f"{timm_version}; do not edit.")
print("#pragma once\n\n// clang-format off\n\nnamespace gx::testing::lamb {\n")
print(f"inline constexpr int updates = {count};")
array("parameters", w)
array("first_moments", m)
array("second_moments", v)
array("parameters_uncorrected", run(False, inf)[0])
array("parameters_max_ratio_1", run(True, 1.0)[0])
print("// The largest distance of timm's parameters from these: corrected, not corrected, bounded.")
array("from_timm", [np.abs(timm_run(c, clip) - run(c, 1.0 if clip else inf)[0]).max()
                    for c, clip in ((True, False), (False, False), (True, True))])
print("\n}  // namespace gx::testing::lamb")
