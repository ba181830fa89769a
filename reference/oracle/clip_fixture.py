#!/usr/bin/env python3
"""Writes tests/optimizer/clip_fixture.hpp: torch's AdamW on clipped gradients, in double.

Run:   python3 reference/oracle/clip_fixture.py > tests/optimizer/clip_fixture.hpp
Needs: PyTorch 1.10 or newer (Debian: python3-torch). The tests need the committed header only.

torch.nn.utils.clip_grad_norm_ of all five tensors, to a norm that some of the steps exceed.
"""
import sys

import torch

sys.dont_write_bytecode = True
from optimizer_cases import STEPS, TENSORS, array, gradient, initial, rate, single, skipped

torch.set_num_threads(1)
MAX_NORM = 14.25
tensors = [torch.tensor(initial(t), dtype=torch.float64).requires_grad_()
           for t in range(len(TENSORS))]
decays = [single(0.1) if role == "weight" else 0.0 for role, _ in TENSORS]
optimizer = torch.optim.AdamW(
    [{"params": [w], "weight_decay": d} for w, d in zip(tensors, decays)],
    betas=(single(0.9), single(0.999)), eps=1 / 16)
clipped = 0
for step in range(STEPS):
    if skipped(step):
        continue
    for t, w in enumerate(tensors):
        w.grad = torch.tensor(gradient(t, step), dtype=torch.float64)
    clipped += float(torch.nn.utils.clip_grad_norm_(tensors, MAX_NORM)) > MAX_NORM
    for group in optimizer.param_groups:
        group["lr"] = rate(step, 0.01)
    optimizer.step()

print("// Written by reference/oracle/clip_fixture.py with PyTorch "
      f"{torch.__version__.split('+')[0]}, in double; do not edit.")
print("#pragma once\n\n// clang-format off\n\nnamespace gx::testing::clip {\n")
print(f"inline constexpr float max_norm = {MAX_NORM}f;")
print(f"inline constexpr int clipped = {clipped};  // steps of 50")
array("parameters", torch.cat([w.detach() for w in tensors]))
print("\n}  // namespace gx::testing::clip")
