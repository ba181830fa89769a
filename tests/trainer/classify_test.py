#!/usr/bin/env python3
"""classify_test.py GX_CLASSIFY: what the program refuses, files that it cannot look at, then its
classes beside torchvision's, from files of images on. The latter is skipped where PyPI's
torchvision and safetensors are not installed; GX_TORCHVISION_PYTHON names their interpreter."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib


def refused(metadata, *arguments):
    """What the program says of weights with this metadata."""
    with tempfile.TemporaryDirectory() as folder:
        header = json.dumps({"__metadata__": metadata}).encode()
        with open(folder + "/w", "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
        with open(folder + "/one", "w") as file:
            file.write("cat\n")
        run = subprocess.run([os.path.abspath(sys.argv[1]), "--weights", "w", *arguments, "x.png"],
                             cwd=folder, capture_output=True, text=True)
    assert run.returncode == 2, run
    return run.stderr


def images(side):
    return json.dumps({"shape": [3, side, side], "mean": [0, 0, 0], "deviation": [1, 1, 1],
                       "classes": 10, "class_names": []})


assert "images of 3 x 32 x 32 do not fit AlexNet" in refused(
    {"model": "AlexNet", "images": images(32)})
assert "do not fit ResNet20" in refused({"model": "ResNet20", "images": images(2**31 - 1)})
assert "1 classes" in refused({}, "--model", "ResNet18", "--imagenet", "--classes", "one")
assert "'conv1.weight' is missing" in refused({}, "--model", "ResNet18", "--imagenet")
# --classes is named where the number of classes is what does not fit.
few = "--classes 'one' names 1 classes: are they this network's?"
assert few in refused({}, "--model", "ResNet18", "--imagenet", "--classes", "one")
assert few in refused({"model": "LeNet", "images": images(28)}, "--classes", "one")
for names, count in (few, 1), ("--classes 'two' names 2 classes", 2):
    assert names not in refused({}, "--model", "ResNet18", "--imagenet", "--classes", "two")



def write_le_net(path):
    """Weights of zeros, for images of 28 x 28."""
    shapes = {"conv1": [6, 1, 5, 5], "conv2": [16, 6, 5, 5], "fc1": [120, 400], "fc2": [84, 120],
              "fc3": [10, 84]}
    header = {"__metadata__": {"model": "LeNet", "images": json.dumps(
        {"shape": [1, 28, 28], "mean": [0], "deviation": [1], "classes": 10, "class_names": []})}}
    end = 0
    for layer, shape in shapes.items():
        for name, sides in ((layer + ".weight", shape), (layer + ".bias", shape[:1])):
            begin, count = end, 1
            for side in sides:
                count *= side
            end = begin + 4 * count
            header[name] = {"dtype": "F32", "shape": sides, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + bytes(end))


def write_png(path):
    """28 x 28 pixels of grey."""
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in ((b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0)),
                           (b"IDAT", zlib.compress(bytes(28 * 29))), (b"IEND", b"")):
            file.write(struct.pack(">I", len(data)) + kind + data +
                       struct.pack(">I", zlib.crc32(kind + data)))


with tempfile.TemporaryDirectory() as folder:
    write_le_net(folder + "/w")
    os.makedirs(folder + "/photographs/deep")
    for name in ("a.png", "deep/b.png", "z.png"):
        write_png(folder + "/photographs/" + name)
    os.symlink("loop.png", folder + "/photographs/loop.png")
    os.symlink("nothing.png", folder + "/photographs/deep/dangling.PNG")
    os.symlink("loop", folder + "/photographs/loop")  # names no image
    os.symlink("..", folder + "/photographs/deep/up")  # nor is that followed
    # A folder that can't be opened, even by root: its path is too long.
    long = "photographs/long"
    os.mkdir(folder + "/" + long)
    at = os.open(folder + "/" + long, os.O_RDONLY)
    while len(long) < 4096:
        os.mkdir("d" * 250, dir_fd=at)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at, long = below, long + "/" + "d" * 250
    os.close(at)
    os.mkdir(folder + "/photographs/locked", 0 if os.geteuid() else 0o755)  # root reads it anyway
    command = [os.path.abspath(sys.argv[1]), "--weights", "w", "--json", "out.json", "photographs",
               "photographs/loop.png"]
    nobody, lines = os.pipe()
    os.close(nobody)  # reads the lines, as behind `| head -0`
    assert subprocess.run(command, cwd=folder, stdout=lines, stderr=subprocess.PIPE).returncode == 1
    os.close(lines)
    with open(folder + "/out.json") as out:
        assert len(json.load(out)["images"]) == 3
    os.remove(folder + "/out.json")
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 1, run
    assert run.stderr.count("'photographs/loop.png' cannot be read") == 2, run.stderr
    assert "'photographs/deep/dangling.PNG' cannot be read" in run.stderr, run.stderr
    assert run.stderr.count(f"'{long}' cannot be read") == 1, run.stderr
    locked = os.geteuid() != 0
    assert locked == ("'photographs/locked' can't be listed" in run.stderr), run.stderr
    with open(folder + "/out.json") as out:
        found = json.load(out)
    assert found["failed"] == 4 + locked, found
    assert [image["file"] for image in found["images"]] == [
        "photographs/a.png", "photographs/deep/b.png", "photographs/z.png"], found
    # A pipe that is named may have no writer; one of a shell, as <(command), has its own.
    os.mkfifo(folder + "/pipe.png")
    with open(folder + "/photographs/a.png", "rb") as image:
        reader, writer = os.pipe()
        os.write(writer, image.read())
        os.close(writer)
    run = subprocess.run([*command[:3], "pipe.png", f"/dev/fd/{reader}"], cwd=folder, timeout=60,
                         pass_fds=[reader], capture_output=True, text=True)
    os.close(reader)
    assert run.returncode == 1 and run.stdout.startswith("/dev/fd/"), run
    assert run.stderr.startswith("gx_classify: 'pipe.png' is a named pipe, "), run
    run = subprocess.run([*command[:3], "--classes", "pipe.png", "photographs/a.png"], cwd=folder,
                         timeout=60, capture_output=True, text=True)
    assert run.returncode == 2 and "'pipe.png' is a named pipe, " in run.stderr, run

python = os.environ.get("GX_TORCHVISION_PYTHON")
if python and "GX_CLASSIFY_TEST" not in os.environ:
    os.environ["GX_CLASSIFY_TEST"] = "1"
    os.execv(python, [python, *sys.argv])
try:
    import numpy
    import torch
    import torchvision
    from PIL import Image
    from safetensors.torch import save_file
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(0)

transforms = torchvision.transforms
shown = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224),
                            transforms.ToTensor(),
                            transforms.Normalize([.485, .456, .406], [.229, .224, .225])])
torch.manual_seed(3)
model = torchvision.models.resnet18(weights=None, num_classes=12).eval()
for p in model.parameters():
    p.data *= 1.25  # logits further apart than one step of a pixel moves them
random = numpy.random.default_rng(1)
with tempfile.TemporaryDirectory() as folder:
    save_file(model.state_dict(), folder + "/w.safetensors")
    with open(folder + "/names.txt", "w") as names:
        names.writelines(f"class {i}\n" for i in range(12))
    os.makedirs(folder + "/images/deep")
    expected = {}
    for i, (size, name) in enumerate([((300, 260), "a.png"), ((640, 480), "deep/b.jpg"),
                                      ((200, 400), "c.PNG"), ((224, 224), "deep/d.png")]):
        coarse = Image.fromarray(random.integers(0, 255, (7, 7, 3), dtype=numpy.uint8))
        path = f"{folder}/images/{name}"
        coarse.resize(size, Image.BICUBIC).save(path)
        with torch.no_grad():
            expected[path] = model(shown(Image.open(path))[None]).softmax(1)[0]
    with open(folder + "/images/broken.jpg", "wb") as broken:
        broken.write(b"no image")
    run = subprocess.run([sys.argv[1], "--weights", folder + "/w.safetensors", "--model",
                          "ResNet18", "--imagenet", "--classes", folder + "/names.txt", "--batch",
                          "3", "--top", "12", "--json", folder + "/out.json", folder + "/images"],
                         capture_output=True, text=True)
    assert run.returncode == 1, run
    assert "broken.jpg': neither a JPEG nor a PNG" in run.stderr, run.stderr
    with open(folder + "/out.json") as out:
        found = json.load(out)
assert found["failed"] == 1 and found["model"] == "ResNet18"
assert [image["file"] for image in found["images"]] == sorted(expected), found
for image in found["images"]:
    theirs = expected[image["file"]]
    for p in image["top"]:  # pixels may differ by 2 of 255 where Pillow rounds twice
        assert p["name"] == f"class {p['label']}"
        assert abs(p["probability"] - float(theirs[p["label"]])) < 0.01, (image, theirs)
    assert image["top"][0]["label"] == int(theirs.argmax()), (image, theirs)
print("4 images have torchvision's classes")
