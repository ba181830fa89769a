#!/usr/bin/env python3
"""Writes tests/optimizer/clip_fixture.hpp: torch's AdamW on clipped gradients, in double.

Run:   python3 reference/oracle/clip_fixture.py > tests/optimizer/clip_fixture.hpp
Needs: PyTorch 1.10 or newer (Debian: python3-torch). The tests need the committed header only.

torch.nn.utils.clip_grad_norm_ of all five tensors, to a norm that some of the steps exceed.
"""
import sys

import torch

sys.dont_write_bytecode = True
from optimizer_cases import array, single
from torch_steps import descend, groups, parameters

MAX_NORM = 14.25
optimizer = torch.optim.AdamW(groups(single(0.1)), betas=(single(0.9), single(0.999)), eps=1 / 16)
norms = []
for _ in descend(optimizer, 0.01, lambda tensors: norms.append(
        float(torch.nn.utils.clip_grad_norm_(tensors, MAX_NORM)))):
    pass

print("// Written by reference/oracle/clip_fixture.py with PyTorch "
      f"{torch.__version__.split('+')[0]}, in double; do not edit.")
print("#pragma once\n\n// clang-format off\n\nnamespace gx::testing::clip {\n")
print(f"inline constexpr float max_norm = {MAX_NORM}f;")
clipped = sum(norm > MAX_NORM for norm in norms)
print(f"inline constexpr int clipped = {clipped};  // steps of {len(norms)}")
array("parameters", parameters(optimizer))
print("\n}  // namespace gx::testing::clip")
