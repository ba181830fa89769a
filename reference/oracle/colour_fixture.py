#!/usr/bin/env python3
"""Writes tests/image/colour_fixture.hpp: colours as Pillow's ImageEnhance, MXNet's PCA noise and
OpenCV's HLS have them, and validation crops as torchvision cuts them with Pillow.

Run:   python3 reference/oracle/colour_fixture.py > tests/image/colour_fixture.hpp
Needs: Pillow 9.4, NumPy. The tests need the committed header only.

HLS: OpenCV 4.6, modules/imgproc/src/color_hsv.simd.hpp, RGB2HLS_f, HLS2RGB_f and their 8-bit
wrappers, in float32; the shifts between them: MXNet 1.0, src/io/image_aug_default.cc.
"""
import sys

import numpy as np
import PIL
from PIL import Image, ImageEnhance

sys.dont_write_bytecode = True
f = np.float32


def pattern(width, height):
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    value = ((x * x * 3 + y * y * 5 + x * y * 7) >> 4) + c * 50 + 37 * ((x >> 3) ^ (y >> 3))
    return np.where(value & 256, 255 - (value & 255), value & 255).astype(np.uint8)


def hashed(image):
    value = 0xCBF29CE484222325
    for byte in np.asarray(image, dtype=np.uint8).tobytes():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"0x{value:016x}u"


def colours():
    """Corners, greys and colours between, 125 in all."""
    levels = [0, 31, 128, 200, 255]
    return np.array([[r, g, b] for r in levels for g in levels for b in levels], dtype=np.uint8)


def rgb_to_hls(rgb):
    r, g, b = (f(v) * f(1 / 255) for v in rgb)
    most, least = max(r, g, b), min(r, g, b)
    diff, light = most - least, (most + least) * f(0.5)
    hue = saturation = f(0)
    if diff > np.finfo(f).eps:
        saturation = diff / (most + least) if light < f(0.5) else diff / (f(2) - most - least)
        step = f(60) / diff
        if most == r:
            hue = (g - b) * step
        elif most == g:
            hue = (b - r) * step + f(120)
        else:
            hue = (r - g) * step + f(240)
        if hue < 0:
            hue += f(360)
    return hue * f(0.5), light * f(255), saturation * f(255)


def hls_to_rgb(hue, light, saturation):
    hue, light, saturation = f(hue) * f(6 / 180), f(light) * f(1 / 255), f(saturation) * f(1 / 255)
    if saturation == 0:
        return light, light, light
    p2 = light * (f(1) + saturation)
    if light > f(0.5):
        p2 = light + saturation - light * saturation
    p1 = f(2) * light - p2
    hue = hue - f(6) if hue >= 6 else hue
    sector = int(hue)
    hue -= f(sector)
    table = [p2, p1, p1 + (p2 - p1) * (f(1) - hue), p1 + (p2 - p1) * hue]
    b, g, r = [(1, 3, 0), (1, 0, 2), (3, 0, 1), (0, 2, 1), (0, 1, 3), (2, 1, 0)][sector]
    return table[r], table[g], table[b]


def byte(x):
    return int(min(max(np.rint(x), 0), 255))


def shifted(rgb, hue, saturation, light):
    h, l, s = (byte(v) for v in rgb_to_hls(rgb))
    h = min(max(h + hue, 0), 180)
    l, s = min(max(l + light, 0), 255), min(max(s + saturation, 0), 255)
    return [byte(v * f(255)) for v in hls_to_rgb(h, l, s)]


def array(name, values):
    print(f"inline constexpr std::uint8_t {name}[] = {{")
    values = [str(int(v)) for v in np.asarray(values).flatten()]
    for i in range(0, len(values), 18):
        print("    " + ", ".join(values[i:i + 18]) + ",")
    print("};")


print(f"// Written by reference/oracle/colour_fixture.py with Pillow {PIL.__version__} and NumPy "
      f"{np.__version__}; do not edit.")
print("#pragma once\n\n#include <cstdint>\n\n// clang-format off\n\n"
      "namespace gx::testing::images {\n")

print("// Kinds: 0 brightness, 1 contrast, 2 saturation.\n"
      "struct EnhanceCase { int kind; float factor; std::uint64_t hash; };")
print("inline constexpr EnhanceCase enhanced[] = {  // of 45 x 37 pixels")
picture = Image.fromarray(pattern(45, 37))
for kind, enhance in enumerate([ImageEnhance.Brightness, ImageEnhance.Contrast,
                                ImageEnhance.Color]):
    for factor in [0, 0.25, 0.6, 0.8125, 1, 1.1, 1.4, 1.75, 3]:
        print(f"    {{{kind}, {float(factor)}f, {hashed(enhance(picture).enhance(factor))}}},")
print("};\n")

print("struct HslCase { int hue, saturation, lightness; std::uint64_t hash; };")
print("inline constexpr HslCase hsl[] = {  // of the 125 colours of 0, 31, 128, 200, 255")
for shift in [(0, 0, 0), (36, 0, 0), (-36, 0, 0), (0, 50, 0), (0, -50, 0), (0, 0, 50), (0, 0, -50),
              (17, -33, 21), (-180, 255, 255), (180, -255, -255)]:
    out = np.array([shifted(c, *shift) for c in colours()])
    print(f"    {{{shift[0]}, {shift[1]}, {shift[2]}, {hashed(out)}}},")
print("};")
array("hsl_17_33_21", [shifted(c, 17, -33, 21) for c in colours()])

print("\n// What normal numbers times 0.1 add to R, G and B: eigenvectors, eigenvalues of MXNet.")
values = np.array([55.46, 4.794, 1.148])
vectors = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140],
                    [-0.5836, -0.6948, 0.4203]])
print("struct PcaCase { double alphas[3]; double shift[3]; };")
print("inline constexpr PcaCase pca[] = {")
for alphas in [(0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1), (-0.07, 0.12, 0.31)]:
    shift = np.dot(vectors * np.array(alphas), values)
    print(f"    {{{{{', '.join(map(repr, map(float, alphas)))}}},\n"
          f"     {{{', '.join(repr(float(s)) for s in shift)}}}}},")
print("};\n")

print("struct CentreCase { int width, height, shorter, side; std::uint64_t hash; };")
print("inline constexpr CentreCase centre_crops[] = {")
for width, height, shorter, side in [(100, 75, 64, 56), (75, 100, 64, 56), (333, 250, 256, 224),
                                     (64, 64, 64, 64), (50, 40, 64, 56), (113, 301, 32, 28)]:
    if width <= height:
        size = (shorter, int(shorter * height / width))
    else:
        size = (int(shorter * width / height), shorter)
    resized = Image.fromarray(pattern(width, height)).resize(size, Image.BILINEAR)
    left, top = (int(round((n - side) / 2.0)) for n in size)
    print(f"    {{{width}, {height}, {shorter}, {side}, "
          f"{hashed(resized.crop((left, top, left + side, top + side)))}}},")
print("};")
print("\n}  // namespace gx::testing::images")
