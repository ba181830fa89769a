#!/usr/bin/env python3
"""Writes FIXTURE, tests/trainer/rank/micro_batches_fixture.hpp: five steps of PyTorch that sum the
gradients of three micro-batches of four images each before an update, in double, with batch norm.

Run:   python3 reference/oracle/micro_batches_fixture.py > FIXTURE
Needs: PyTorch 1.10 or newer (Debian: python3-torch), NumPy. The test needs the header only.

ORDER is that of gx's loader for seed 7; the test compares it with the loader's.
"""
import sys

import numpy as np
import torch

sys.dont_write_bytecode = True
from optimizer_cases import array

ORDER = [[8, 10, 11, 5, 2, 4, 6, 7, 9, 0, 3, 1], [1, 3, 11, 0, 10, 2, 7, 4, 6, 8, 5, 9],
         [9, 1, 3, 11, 10, 5, 4, 2, 7, 6, 0, 8], [5, 8, 10, 2, 0, 11, 6, 9, 7, 1, 3, 4],
         [9, 5, 10, 1, 8, 7, 4, 6, 3, 2, 0, 11]]
PARTS, RATE, MOMENTUM = 3, 0.125, 0.9


def image(i):
    return [((i * 37 + j * 101) % 129 - 64) / 64 for j in range(16)]


def initial(k):
    return np.float64(np.float32(((k * 53) % 97 - 48) / 128))


net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3, padding=1, bias=False), torch.nn.BatchNorm2d(2),
                          torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(32, 3)).double()
k = 0
with torch.no_grad():
    for parameter in net.parameters():
        flat = parameter.view(-1)
        for i in range(flat.numel()):
            flat[i], k = initial(k), k + 1
optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM)
criterion = torch.nn.CrossEntropyLoss(reduction="sum")
for order in ORDER:
    optimizer.zero_grad()
    for part in np.array_split(order, PARTS):
        x = torch.tensor([image(i) for i in part], dtype=torch.float64).view(-1, 1, 4, 4)
        (criterion(net(x), torch.tensor([i % 3 for i in part])) / len(order)).backward()
    optimizer.step()

print("// Written by reference/oracle/micro_batches_fixture.py with PyTorch "
      f"{torch.__version__.split('+')[0]} and NumPy {np.__version__}.")
print("#pragma once\n\n// clang-format off\n\nnamespace gx::testing::micro_batches {\n")
print("inline constexpr unsigned order[5][12] = {")
for order in ORDER:
    print("    {" + ", ".join(map(str, order)) + "},")
print("};")
array("parameters", np.concatenate([p.detach().numpy().ravel() for p in net.parameters()]))
array("statistics", np.concatenate([net[1].running_mean.numpy(), net[1].running_var.numpy()]))
print("\n}  // namespace gx::testing::micro_batches")
