#!/usr/bin/env python3
"""Writes torchvision_fixture.hpp of plugins/onednn/tests: names and shapes of torchvision's tensors
as a sum, and logits of two images in double, of weights that the test makes alike.

Run:   python3 reference/oracle/torchvision_fixture.py > torchvision_fixture.hpp
Needs: PyPI's torch, torchvision 0.14 or newer. The test needs the committed header only.
"""
import zlib

import torch
import torchvision

from torchvision_models import CLASSES, MODELS, filled, logits_in_double, tensors

print("// Written by reference/oracle/torchvision_fixture.py; do not edit. "
      f"torchvision {torchvision.__version__.split('+')[0]},")
print(f"// PyTorch {torch.__version__.split('+')[0]}.")
print("""#pragma once

// clang-format off

#include <cstdint>  // uint32_t

namespace torchvision_fixture {

struct Network {
    const char* name;
    int side;                 // of the image
    int tensors;              // without num_batches_tracked
    std::uint32_t crc32;      // of "name 64 3 7 7\\n" of each, sorted by name
    double logits[2][%d];
};
inline constexpr Network networks[] = {""" % CLASSES)
for name, constructor, side in MODELS:
    model = filled(constructor)
    listed = sorted(" ".join([n, *map(str, shape)]) + "\n" for n, shape in tensors(model))
    logits = logits_in_double(model, side)
    rows = ["{" + ",\n       ".join(float(v).hex() for v in row) + "}" for row in logits]
    rows = ",\n      ".join(rows)
    crc = zlib.crc32("".join(listed).encode())
    print(f"    {{\"{name}\", {side}, {len(listed)}, 0x{crc:08x},\n     {{{rows}}}}},")
print("};\n\n}  // namespace torchvision_fixture")
