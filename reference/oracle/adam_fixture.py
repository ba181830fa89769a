#!/usr/bin/env python3
"""Writes tests/optimizer/adam_fixture.hpp: where torch.optim.Adam, in double, moves five tensors.

Run:   python3 reference/oracle/adam_fixture.py > tests/optimizer/adam_fixture.hpp
Needs: PyTorch 1.10 or newer (Debian: python3-torch). The tests need the committed header only.
"""
import sys

import torch

sys.dont_write_bytecode = True
from optimizer_cases import STEPS, TENSORS, array, gradient, initial, rate, single, skipped

torch.set_num_threads(1)
tensors = [torch.tensor(initial(t), dtype=torch.float64).requires_grad_()
           for t in range(len(TENSORS))]
decays = [single(0.1) if role == "weight" else 0.0 for role, _ in TENSORS]
optimizer = torch.optim.Adam(
    [{"params": [w], "weight_decay": d} for w, d in zip(tensors, decays)],
    betas=(single(0.9), single(0.999)), eps=1 / 16)
updates = 0
for step in range(STEPS):
    if skipped(step):
        continue
    for t, w in enumerate(tensors):
        w.grad = torch.tensor(gradient(t, step), dtype=torch.float64)
    for group in optimizer.param_groups:
        group["lr"] = rate(step, 0.01)
    optimizer.step()
    updates += 1


def state(name):
    return torch.cat([optimizer.state[w][name] for w in tensors])


print("// Written by reference/oracle/adam_fixture.py with PyTorch "
      f"{torch.__version__.split('+')[0]}, in double; do not edit.")
print("#pragma once\n\n// clang-format off\n\nnamespace gx::testing::adam {\n")
print(f"inline constexpr int updates = {updates};")
array("parameters", torch.cat([w.detach() for w in tensors]))
array("first_moments", state("exp_avg"))
array("second_moments", state("exp_avg_sq"))
print("\n}  // namespace gx::testing::adam")
