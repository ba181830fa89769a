#!/usr/bin/env python3
"""Writes tests/optimizer/adamw_fixture.hpp: where torch.optim.AdamW, in double, moves five tensors.

Run:   python3 reference/oracle/adamw_fixture.py > tests/optimizer/adamw_fixture.hpp
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
optimizer = torch.optim.AdamW(
    [{"params": [w], "weight_decay": d} for w, d in zip(tensors, decays)],
    betas=(single(0.9), single(0.999)), eps=1 / 16)
updates = 0
first = None
for step in range(STEPS):
    if skipped(step):
        continue
    for t, w in enumerate(tensors):
        w.grad = torch.tensor(gradient(t, step), dtype=torch.float64)
    for group in optimizer.param_groups:
        group["lr"] = rate(step, 0.01)
    optimizer.step()
    updates += 1
    if updates == 1:
        first = torch.cat([w.detach().clone() for w in tensors])


def state(name):
    return torch.cat([optimizer.state[w][name] for w in tensors])


print("// Written by reference/oracle/adamw_fixture.py with PyTorch "
      f"{torch.__version__.split('+')[0]}, in double; do not edit.")
print("#pragma once\n\n// clang-format off\n\nnamespace gx::testing::adamw {\n")
print(f"inline constexpr int updates = {updates};")
array("first_parameters", first)
array("parameters", torch.cat([w.detach() for w in tensors]))
array("first_moments", state("exp_avg"))
array("second_moments", state("exp_avg_sq"))
print("\n}  // namespace gx::testing::adamw")
