#!/usr/bin/env python3
"""Writes tests/reference/torch_fixture.hpp: what PyTorch, in double, gives for one small network.

Run:   python3 reference/oracle/torch_fixture.py > tests/reference/torch_fixture.hpp
Needs: PyTorch 1.10 or newer (Debian: python3-torch). The tests need the committed header only.

The network, its numbers and its batch are built again in tests/reference/torch_test.cpp.
"""
import torch
import torch.nn.functional as F

from torch_numbers import array, numbers

shapes = [("conv1_weight", (4, 1, 3, 2)), ("conv1_bias", (4,)), ("bn1_gamma", (4,)),
          ("bn1_beta", (4,)), ("conv2_weight", (4, 4, 1, 1)), ("bn2_gamma", (4,)),
          ("bn2_beta", (4,)), ("fc_weight", (4, 16)), ("fc_bias", (4,))]
p = {}
for stream, (name, shape) in enumerate(shapes, start=1):
    p[name] = (numbers(torch.Size(shape).numel(), stream).reshape(shape) / 4).requires_grad_()
images = numbers(3 * 2 * 9 * 9, 0).reshape(3, 2, 9, 9).requires_grad_()
labels = torch.tensor([2, 0, 3])
running = {k: (torch.zeros(4).double(), torch.ones(4).double()) for k in ("bn1", "bn2")}


def forward(training):
    def norm(x, name, momentum, epsilon):
        mean, variance = running[name]
        return F.batch_norm(x, mean, variance, p[name + "_gamma"], p[name + "_beta"], training,
                            momentum, epsilon)

    x = F.conv2d(images, p["conv1_weight"], p["conv1_bias"], stride=2, padding=1, groups=2)
    x = F.relu(norm(x, "bn1", 0.25, 0.125))
    x = F.max_pool2d(x, 3, stride=2, padding=1)
    y = norm(F.conv2d(x, p["conv2_weight"]), "bn2", 0.5, 0.0625)
    x = F.relu(x + y)
    x = F.avg_pool2d(x, 2, stride=2, padding=1, count_include_pad=False)
    logits = F.linear(x.flatten(1), p["fc_weight"], p["fc_bias"])
    return logits, F.cross_entropy(logits, labels, reduction="sum", label_smoothing=0.125)


logits, loss = forward(training=True)
loss.backward()
evaluated_logits, evaluated_loss = forward(training=False)

print("// Written by reference/oracle/torch_fixture.py with PyTorch "
      f"{torch.__version__.split('+')[0]}, in double; do not edit.")
print("#pragma once\n\n// clang-format off\n\nnamespace gx::reference::testing::torch {\n")
print(f"inline constexpr double loss = {float(loss).hex()};")
print(f"inline constexpr double evaluated_loss = {float(evaluated_loss).hex()};")
array("logits", logits)
array("evaluated_logits", evaluated_logits)
array("statistics", torch.cat([t for k in ("bn1", "bn2") for t in running[k]]))
array("parameter_gradients", torch.cat([p[name].grad.flatten() for name, _ in shapes]))
array("image_gradients", images.grad)
print("\n}  // namespace gx::reference::testing::torch")
