#!/usr/bin/env python3
"""Writes the losses of ResNet-20 over 200 steps of SGD in PyTorch, in double.

Run:   python3 reference/oracle/resnet20_losses.py > plugins/onednn/tests/resnet20_losses.hpp
Needs: PyTorch 2.0 or newer and NumPy; some minutes. The tests need the committed header only.
"""
import sys

import numpy
import torch
from torch import nn

sys.dont_write_bytecode = True
from optimizer_cases import array, single

STEPS, BATCH, BATCHES = 200, 16, 16


def uniform(count, stream):
    """Floats in [-1, 1) of 24 bits, that the test draws alike: a hash of place and stream."""
    x = numpy.arange(count, dtype=numpy.uint64) + numpy.uint64(stream << 32)
    for factor in (0xbf58476d1ce4e5b9, 0x94d049bb133111eb):
        x = (x ^ (x >> numpy.uint64(31))) * numpy.uint64(factor)
    return (x >> numpy.uint64(40)).astype(numpy.float64) / 2**23 - 1


def conv(inputs, outputs, size, stride):
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3, 1), nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.downsample(x))


def resnet20():
    layers = [conv(3, 16, 3, 1), nn.BatchNorm2d(16), nn.ReLU()]
    width = 16
    for stage in range(3):
        for block in range(3):
            outputs = 16 << stage
            layers.append(Block(width, outputs, 2 if stage > 0 and block == 0 else 1))
            width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def losses(rounding):
    """Of a run that starts from weights that went through `rounding`."""
    net = resnet20()
    with torch.no_grad():
        for index, p in enumerate(net.parameters()):
            if p.dim() > 1:  # as wide as He's, by a power of two: exact in every language
                factor = 2.0**round(numpy.log2(2.5 / p[0].numel()**0.5))
                values = torch.from_numpy(uniform(p.numel(), index) * factor)
                p.copy_(rounding(values).reshape(p.shape))
            else:
                p.fill_(1 if index % 3 == 1 and p.numel() > 10 else 0)
    sgd = torch.optim.SGD(net.parameters(), lr=single(0.002), momentum=single(0.9))
    for step in range(STEPS):
        sgd.zero_grad()
        loss = nn.functional.cross_entropy(net(images[step % BATCHES]), labels[step % BATCHES])
        loss.backward()
        sgd.step()
        print(step, loss.item(), file=sys.stderr)
        yield loss.item()


def half_a_unit(values):
    """Moves each by half of a unit in the last place of a float, up or down."""
    signs = torch.from_numpy(numpy.sign(uniform(values.numel(), 2000) + 2.0**-24))
    return values * (1 + signs * 2.0**-24)


torch.set_default_dtype(torch.float64)
images = torch.from_numpy(uniform(BATCHES * BATCH * 3072, 1000) * 2).reshape(
    BATCHES, BATCH, 3, 32, 32)
labels = torch.tensor([i * 7 % 10 for i in range(BATCHES * BATCH)]).reshape(BATCHES, BATCH)
print(f"// Written by reference/oracle/resnet20_losses.py with PyTorch "
      f"{torch.__version__.split('+')[0]}, in double; do not edit.")
print("#pragma once\n\n// clang-format off\n\nnamespace gx::testing::resnet20 {\n")
print(f"inline constexpr int batch = {BATCH}, batches = {BATCHES};")
array("losses", losses(lambda values: values))
print("/// From weights moved by half a unit in the last place of a float, or rounded to bf16.")
array("losses_of_fp32_weights", losses(half_a_unit))
array("losses_of_bf16_weights", losses(lambda values: values.to(torch.bfloat16).double()))
print("\n}  // namespace gx::testing::resnet20")
