#!/usr/bin/env python3
"""Writes tests/reference/torch_branches_fixture.hpp: what PyTorch, in double, gives for a network
of branches: grouped convolutions, windows of 1x5 and 5x1, a mean that counts its padding, joins.

Run:   python3 reference/oracle/torch_branches_fixture.py > torch_branches_fixture.hpp
Needs: PyTorch 1.10 or newer (Debian: python3-torch). The tests need the committed header only.

The network, its numbers and its batch are built again in tests/reference/torch_branches_test.cpp.
"""
import torch
import torch.nn.functional as F

from torch_numbers import array, numbers

shapes = [("stem_weight", (12, 2, 3, 3)), ("bn_gamma", (12,)), ("bn_beta", (12,)),
          ("one_weight", (5, 12, 1, 1)), ("wide_weight", (4, 12, 1, 5)), ("wide_bias", (4,)),
          ("tall_weight", (6, 4, 5, 1)), ("mean_weight", (3, 12, 1, 1)),
          ("last_weight", (4, 13, 3, 2)), ("fc_weight", (3, 4)), ("fc_bias", (3,))]
p = {}
for stream, (name, shape) in enumerate(shapes, start=1):
    p[name] = (numbers(torch.Size(shape).numel(), stream).reshape(shape) / 8).requires_grad_()
images = numbers(3 * 6 * 7 * 6, 0).reshape(3, 6, 7, 6).requires_grad_()
labels = torch.tensor([2, 0, 1])

x = F.conv2d(images, p["stem_weight"], padding=1, groups=3)
x = F.relu(F.batch_norm(x, None, None, p["bn_gamma"], p["bn_beta"], True, 0.1, 1e-3))
one = F.conv2d(x, p["one_weight"])
wide = F.relu(F.conv2d(x, p["wide_weight"], p["wide_bias"], padding=(0, 2)))
tall = F.conv2d(wide, p["tall_weight"], padding=(2, 0))
mean = F.conv2d(F.avg_pool2d(x, 3, stride=1, padding=1), p["mean_weight"])
joined = torch.cat([one, tall, mean, F.max_pool2d(x, 3, stride=1, padding=1)], 1)
last = F.conv2d(joined, p["last_weight"], stride=2, padding=(1, 0), groups=2)
logits = F.linear(last.mean((2, 3)), p["fc_weight"], p["fc_bias"])
loss = F.cross_entropy(logits, labels, reduction="sum")
loss.backward()

print("// Written by reference/oracle/torch_branches_fixture.py; do not edit. PyTorch "
      f"{torch.__version__.split('+')[0]}, in double.")
print("#pragma once\n\n// clang-format off\n\nnamespace gx::reference::testing::branches {\n")
print(f"inline constexpr double loss = {float(loss.detach()).hex()};")
array("logits", logits)
array("parameter_gradients", torch.cat([p[name].grad.flatten() for name, _ in shapes]))
array("image_gradients", images.grad)
print("\n}  // namespace gx::reference::testing::branches")
