#!/usr/bin/env python3
"""Writes tests/optimizer/sgd_fixture.hpp: where four forms of momentum, in double, move tensors.

Run:   python3 reference/oracle/sgd_fixture.py > tests/optimizer/sgd_fixture.hpp
Needs: PyTorch 1.10 or newer (Debian: python3-torch), NumPy. The tests need the header only.

With gradients in the velocity: torch.optim.SGD, plain and with nesterov=True. With steps in it,
equations 9 of Goyal et al. 2017, arXiv:1706.02677 (plain), and for Nesterov's form 6 and 7 of
Bengio et al. 2012, arXiv:1212.0901, for the point x looked ahead to,

    v' = mu v - rate g(x),    x' = x + mu (v' - v) + v'

which is Sutskever et al. 2013, equations 3 and 4, with x = theta + mu v and a constant mu.
"""
import sys

import numpy as np
import torch

sys.dont_write_bytecode = True
from optimizer_cases import STEPS, TENSORS, array, gradient, initial, rate, single, skipped
from torch_steps import descend, groups, parameters

momentum, decay, peak = single(0.9), single(5e-3), 0.05
decays = [decay if role == "weight" else 0.0 for role, _ in TENSORS]


def gradients_in_velocity(nesterov):
    optimizer = torch.optim.SGD(groups(decay), lr=peak, momentum=momentum, nesterov=nesterov)
    for _ in descend(optimizer, peak):
        pass
    return parameters(optimizer)


def steps_in_velocity(nesterov):
    tensors = [np.array(initial(t), dtype=np.float64) for t in range(len(TENSORS))]
    velocities = [np.zeros_like(w) for w in tensors]
    for step in range(STEPS):
        for t in range(0 if skipped(step) else len(TENSORS)):
            before = velocities[t]
            g = np.array(gradient(t, step)) + decays[t] * tensors[t]
            after = momentum * before - rate(step, peak) * g
            ahead = momentum * (after - before) if nesterov else 0.0
            tensors[t] = tensors[t] + ahead + after
            velocities[t] = after
    return np.concatenate(tensors)


print("// Written by reference/oracle/sgd_fixture.py with PyTorch "
      f"{torch.__version__.split('+')[0]} and NumPy {np.__version__}; do not edit.")
print("#pragma once\n\n// clang-format off\n\nnamespace gx::testing::sgd {\n")
array("plain", gradients_in_velocity(False))
array("nesterov", gradients_in_velocity(True))
array("plain_rate_in_velocity", steps_in_velocity(False))
array("nesterov_rate_in_velocity", steps_in_velocity(True))
print("\n}  // namespace gx::testing::sgd")
