#!/usr/bin/env python3
"""Writes tests/reference/loss_fixture.hpp: losses, gradients and top-5 hits by PyTorch, in double.

Run:   python3 reference/oracle/loss_fixture.py > tests/reference/loss_fixture.hpp
Needs: PyTorch 1.10 or newer (Debian: python3-torch). The tests need the committed header only.

CrossEntropyLoss(label_smoothing) of class probabilities, of which two classes have a share.
torch.topk where all logits of a row differ; of equal ones it takes any, a stable sort the first.
"""
import textwrap

import torch

IMAGES, CLASSES = 12, 9
torch.set_default_dtype(torch.float64)


def logits(values, step):
    n = torch.arange(IMAGES * CLASSES)
    return (((n * 37 + 11) % values - values // 2).double() * step).reshape(IMAGES, CLASSES)


distinct, tied = logits(257, 1 / 16), logits(5, 1 / 2)
images = torch.arange(IMAGES)
first, second = images * 5 % CLASSES, (images * 7 + 3) % CLASSES
weight = (images * 29 % 65).double() / 64
rows = images, first


def array(name, values, kind="double"):
    text = ", ".join(repr(v) for v in values.reshape(-1).tolist())
    print("\n".join(textwrap.wrap(f"inline constexpr {kind} {name}[] = {{{text}}};", 100)))


print("// Written by reference/oracle/loss_fixture.py with PyTorch "
      f"{torch.__version__.split('+')[0]}, in double; do not edit.")
print("#pragma once\n\n// clang-format off\n\nnamespace gx::reference::testing::loss {\n")
print(f"inline constexpr int images = {IMAGES}, classes = {CLASSES};")
array("distinct", distinct)
array("tied", tied)
array("first", first, "int")
array("second", second, "int")
array("weight", weight)
array("top5", (distinct.topk(5).indices == first[:, None]).any(1).int(), "int")
by_class = tied.sort(descending=True, stable=True).indices[:, :5]
array("tied_top5", (by_class == first[:, None]).any(1).int(), "int")
for name, smoothing in ("plain", 0.0), ("smoothed", 0.125):
    for mixed in False, True:
        z = distinct.clone().requires_grad_()
        shares = torch.zeros(IMAGES, CLASSES)
        if mixed:
            shares[images, first] += weight
            shares[images, second] += 1 - weight
        else:
            shares[images, first] = 1
        loss = torch.nn.CrossEntropyLoss(label_smoothing=smoothing, reduction="none")
        losses = loss(z, shares)
        losses.sum().backward()
        array(f"{name}{'_mixed' if mixed else ''}_loss", losses.detach())
        array(f"{name}{'_mixed' if mixed else ''}_gradient", z.grad)
print("\n}  // namespace gx::reference::testing::loss")
