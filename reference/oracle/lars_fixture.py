#!/usr/bin/env python3
"""Writes tests/optimizer/lars_fixture.hpp: where LARS, in double, moves five tensors.

Run:   python3 reference/oracle/lars_fixture.py > tests/optimizer/lars_fixture.hpp
Needs: NumPy. The tests need the committed header only.

You, Gitman and Ginsburg 2017, arXiv:1708.03888, algorithm 1: for the layer l with weights w and
gradient g of the loss,

    lambda = trust * ||w|| / (||g|| + decay * ||w||)
    v = momentum * v + rate * lambda * (g + decay * w)
    w = w - v

Biases, gammas and betas have lambda 1 and no decay.
"""
import sys

import numpy as np

sys.dont_write_bytecode = True
from optimizer_cases import STEPS, TENSORS, array, gradient, initial, rate, single, skipped

momentum, decay, trust = single(0.9), single(5e-3), single(0.02)
tensors = [np.array(initial(t), dtype=np.float64) for t in range(len(TENSORS))]
velocities = [np.zeros_like(w) for w in tensors]
updates = 0
for step in range(STEPS):
    if skipped(step):
        continue
    for t, (role, _) in enumerate(TENSORS):
        w, g = tensors[t], np.array(gradient(t, step), dtype=np.float64)
        if role == "weight":
            ratio = trust * np.linalg.norm(w) / (np.linalg.norm(g) + decay * np.linalg.norm(w))
            g = g + decay * w
        else:
            ratio = 1.0
        velocities[t] = momentum * velocities[t] + rate(step, 0.5) * ratio * g
        tensors[t] = w - velocities[t]
    updates += 1

print(f"// Written by reference/oracle/lars_fixture.py with NumPy {np.__version__}, in double; "
      "do not edit.")
print("#pragma once\n\n// clang-format off\n\nnamespace gx::testing::lars {\n")
print(f"inline constexpr int updates = {updates};")
array("parameters", np.concatenate(tensors))
array("velocities", np.concatenate(velocities))
print("\n}  // namespace gx::testing::lars")
