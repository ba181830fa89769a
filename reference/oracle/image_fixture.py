#!/usr/bin/env python3
"""Writes tests/image/image_fixture.hpp: images as Pillow decodes and resizes them.

Run:   python3 reference/oracle/image_fixture.py NEWER > tests/image/image_fixture.hpp
Needs: Pillow 9.4 (Debian's python3-pil), NumPy; PyTorch for interpolate(antialias=True), which is
       what torchvision runs on tensors; NEWER: a python3 with Pillow 13, which resizes vertically
       first where that is less work. The tests need the committed header only.

torchvision's resized_crop of a PIL image is Pillow's crop() and resize(), with these arguments.
"""
import io
import subprocess
import sys

import numpy as np
import PIL
import torch
from PIL import Image, ImageOps, features


def pattern(width, height):
    """Edges, slopes and fine texture from whole numbers, as tests/image/pattern.hpp makes it."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    value = ((x * x * 3 + y * y * 5 + x * y * 7) >> 4) + c * 50 + 37 * ((x >> 3) ^ (y >> 3))
    return np.where(value & 256, 255 - (value & 255), value & 255).astype(np.uint8)


def hashed(image):
    """FNV-1a, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in np.asarray(image, dtype=np.uint8).tobytes():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"0x{value:016x}u"


def array(name, values):
    print(f"inline constexpr std::uint8_t {name}[] = {{")
    values = [str(v) for v in values]
    for i in range(0, len(values), 18):
        print("    " + ", ".join(values[i:i + 18]) + ",")
    print("};")


print(f"// Written by reference/oracle/image_fixture.py with Pillow {PIL.__version__}, "
      f"libjpeg-turbo {features.version('libjpeg_turbo')},\n// PyTorch "
      f"{torch.__version__.split('+')[0]}; do not edit.")
print("#pragma once\n\n#include <cstdint>\n\n// clang-format off\n\n"
      "namespace gx::testing::images {\n")

# ---- Resizing -----------------------------------------------------------------------------------
print("struct ResizeCase { int width, height; double box[4]; int to_width, to_height;\n"
      "                    std::uint64_t hash; };")
print("inline constexpr ResizeCase pillow_bilinear[] = {")
for width, height, box, to in [
        (500, 375, (0, 0, 500, 375), (224, 224)), (375, 500, (0, 0, 375, 500), (256, 341)),
        (640, 480, (0, 0, 640, 480), (32, 24)), (100, 90, (0, 0, 100, 90), (224, 224)),
        (224, 224, (0, 0, 224, 224), (224, 224)), (17, 300, (0, 0, 17, 300), (33, 7)),
        (1, 1, (0, 0, 1, 1), (5, 4)), (300, 1, (0, 0, 300, 1), (7, 3)),
        (2, 2, (0, 0, 2, 2), (1, 1)),
        (250, 188, (10.5, 7.25, 200.75, 150.5), (224, 224)), (90, 70, (3, 5, 40, 60), (90, 11)),
        (1500, 40, (0, 0, 1500, 40), (3, 3))]:
    image = Image.fromarray(pattern(width, height))
    to_box = (box[0], box[1], box[0] + box[2] if box[0] else box[2],
              box[1] + box[3] if box[1] else box[3])
    if to_box[2] > width or to_box[3] > height:
        to_box = (box[0], box[1], min(to_box[2], width), min(to_box[3], height))
    result = image.resize(to, Image.BILINEAR, box=to_box)
    shown = (to_box[0], to_box[1], to_box[2] - to_box[0], to_box[3] - to_box[1])
    print(f"    {{{width}, {height}, {{{', '.join(map(str, shown))}}}, {to[0]}, {to[1]}, "
          f"{hashed(result)}}},")
print("};")
print("// Of 61 x 47 pixels, 19 x 23.")
array("pillow_small", np.asarray(Image.fromarray(pattern(61, 47)).resize(
    (19, 23), Image.BILINEAR)).flatten())
# The vertical pass of Pillow 13 comes first here.
newer = """
import sys, PIL; from PIL import Image
assert int(PIL.__version__.split(".")[0]) >= 13
image = Image.frombytes("RGB", (17, 300), sys.stdin.buffer.read())
sys.stdout.buffer.write(image.resize((33, 7), Image.BILINEAR).tobytes())
"""
print("// Of 17 x 300 pixels, 33 x 7, by Pillow 13.")
array("pillow_13", subprocess.run([sys.argv[1], "-I", "-c", newer], capture_output=True, check=True,
                                  input=pattern(17, 300).tobytes()).stdout)
tensor = torch.tensor(pattern(61, 47).tolist()).permute(2, 0, 1)[None]
for name, antialias in [("torch_antialiased", True), ("torch_plain", False)]:
    scaled = torch.nn.functional.interpolate(tensor.double(), size=(23, 19), mode="bilinear",
                                             align_corners=False, antialias=antialias)
    array(name, torch.round(scaled)[0].permute(1, 2, 0).to(torch.uint8).flatten().tolist())

# ---- JPEG and PNG -------------------------------------------------------------------------------
print("\nstruct FileCase { const char* name; const std::uint8_t* bytes; std::uint32_t count;\n"
      "                  int width, height, channels; std::uint64_t hash; };")
rows = []


def case(name, image, kind, converted=None, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    decoded = Image.open(io.BytesIO(buffer.getvalue()))
    channels = 3 if decoded.mode == "P" else len(decoded.getbands())
    if converted is None:
        converted = decoded.convert("RGB")
    else:
        converted = converted(decoded).convert("RGB")
    array(f"{name}_bytes", buffer.getvalue())
    rows.append(f'    {{"{name}", {name}_bytes, sizeof {name}_bytes,\n     {decoded.width}, '
                f"{decoded.height}, {channels}, {hashed(converted)}}},")


picture = Image.fromarray(pattern(45, 37))
for name, subsampling in [("jpeg_444", 0), ("jpeg_422", 1), ("jpeg_420", 2)]:
    case(name, picture, "JPEG", quality=85, subsampling=subsampling)
case("jpeg_progressive", picture, "JPEG", quality=85, subsampling=2, progressive=True)
case("jpeg_quality_20", picture, "JPEG", quality=20)
case("jpeg_grey", picture.convert("L"), "JPEG", quality=85)
case("jpeg_1x1", picture.crop((3, 3, 4, 4)), "JPEG")
planes = np.concatenate([pattern(45, 37), pattern(45, 37)[::-1, ::-1, :1] // 2], axis=2)
case("jpeg_cmyk", Image.fromarray(planes, "CMYK"), "JPEG", quality=85)
case("png_rgb", picture, "PNG")
case("png_rgba", Image.fromarray(planes, "RGBA"), "PNG")
case("png_grey", picture.convert("L"), "PNG")
case("png_grey_alpha", picture.convert("LA"), "PNG")
case("png_bits", picture.convert("1"), "PNG")
case("png_palette", picture.quantize(200), "PNG")
case("png_palette_4", picture.quantize(11), "PNG", bits=4)
case("png_transparent", picture.quantize(7), "PNG", bits=4, transparency=3)
print("inline constexpr FileCase files[] = {\n" + "\n".join(rows) + "\n};")

rows = []
small = picture.crop((5, 2, 28, 17))
for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = orientation
    case(f"jpeg_turned_{orientation}", small, "JPEG", ImageOps.exif_transpose, quality=70,
         exif=exif.tobytes())
print("inline constexpr FileCase turned[] = {  // upright, sizes as stored\n" + "\n".join(rows) +
      "\n};")
print("\n}  // namespace gx::testing::images")
