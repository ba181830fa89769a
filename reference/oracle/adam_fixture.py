#!/usr/bin/env python3
"""Writes where torch.optim.Adam or AdamW, in double, moves five tensors.

Run:   python3 reference/oracle/adam_fixture.py Adam > tests/optimizer/adam_fixture.hpp
       python3 reference/oracle/adam_fixture.py AdamW > tests/optimizer/adamw_fixture.hpp
Needs: PyTorch 1.10 or newer (Debian: python3-torch). The tests need the committed headers only.
"""
import sys

import torch

sys.dont_write_bytecode = True
from optimizer_cases import array, single
from torch_steps import descend, groups, parameters, state

name = sys.argv[1]
optimizer = getattr(torch.optim, name)(groups(single(0.1)), betas=(single(0.9), single(0.999)),
                                       eps=1 / 16)
updates = sum(1 for _ in descend(optimizer, 0.01))

print(f"// Written by reference/oracle/adam_fixture.py with PyTorch "
      f"{torch.__version__.split('+')[0]}, in double; do not edit.")
print(f"#pragma once\n\n// clang-format off\n\nnamespace gx::testing::{name.lower()} {{\n")
print(f"inline constexpr int updates = {updates};")
array("parameters", parameters(optimizer))
array("first_moments", state(optimizer, "exp_avg"))
array("second_moments", state(optimizer, "exp_avg_sq"))
print(f"\n}}  // namespace gx::testing::{name.lower()}")
