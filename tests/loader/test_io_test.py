#!/usr/bin/env python3
"""test_io_test.py GX_TEST_IO: images of every kind of source that the program opens, written here
by Python's own modules; what it counts, which rates it finds, and what it calls the bottleneck."""
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
import zlib

PROGRAM = os.path.abspath(sys.argv[1])
COUNT, CLASSES = 24, 3


def png(number):
    """20 x 18 pixels of one colour with a line in it."""
    rows = [bytes([0]) + bytes([number * 9, 200 - number, y * 9] * 20) for y in range(18)]

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 20, 18, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b""))


def crc32c(data):
    """As TFRecord masks it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def message(field, data):
    """A field of a protocol buffer that holds bytes."""
    length, size = b"", len(data)
    while size >= 128:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([field << 3 | 2]) + length + bytes([size]) + data


def example(number):
    image = message(1, message(1, png(number)))  # Feature.bytes_list.value
    label = message(3, bytes([1 << 3, number % CLASSES]))  # Feature.int64_list.value
    entries = [(b"image/encoded", image), (b"image/class/label", label)]
    features = b"".join(message(1, message(1, k) + message(2, v)) for k, v in entries)
    return message(1, features)


def write(folder):
    """A source of each kind; returns the arguments that open it, and its height."""
    for i in range(COUNT):
        place = f"{folder}/images/{i % CLASSES}"
        os.makedirs(place, exist_ok=True)
        with open(f"{place}/{i}.png", "wb") as file:
            file.write(png(i))
    with tarfile.open(f"{folder}/a.tar", "w") as tar:
        for i in range(COUNT):
            for ending, data in (("png", png(i)), ("cls", str(i % CLASSES).encode())):
                entry = tarfile.TarInfo(f"{i:04}.{ending}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    with open(f"{folder}/a.rec", "wb") as file, open(f"{folder}/a.idx", "w") as index:
        for i in range(COUNT):
            data = struct.pack("<IfQQ", 0, i % CLASSES, i, 0) + png(i)
            index.write(f"{i}\t{file.tell()}\n")
            file.write(struct.pack("<II", 0xCED7230A, len(data)) + data + bytes(-len(data) % 4))
    with open(f"{folder}/train-00000-of-00001", "wb") as file:
        for i in range(COUNT):
            data, length = example(i), struct.pack("<Q", len(example(i)))
            file.write(length + struct.pack("<I", crc32c(length)) + data +
                       struct.pack("<I", crc32c(data)))
    os.mkdir(f"{folder}/cifar")
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        with open(f"{folder}/cifar/{name}.bin", "wb") as file:
            for i in range(COUNT):
                file.write(bytes([i % 10]) + bytes((i * 7 + j) % 256 for j in range(3072)))
    os.mkdir(f"{folder}/mnist")
    with open(f"{folder}/mnist/train-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, COUNT, 28, 28))
        file.write(bytes(i * j % 256 for i in range(COUNT) for j in range(784)))
    with open(f"{folder}/mnist/train-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 0x801, COUNT) + bytes(i % CLASSES for i in range(COUNT)))
    return [(["images"], 16), (["a.tar"], 16), (["a.rec"], 16), (["train-00000-of-00001"], 16),
            (["cifar"], 32), (["cifar/data_batch_1.bin", "cifar/data_batch_2.bin"], 32),
            (["mnist"], 28), (["mnist/train-images-idx3-ubyte"], 28)]


def run(folder, *arguments):
    words = [PROGRAM, "--seconds", "0.02", *arguments]
    for option, value in (("--side", "16"), ("--batch", "4")):
        words += [] if option in words else [option, value]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


def measured(folder, *arguments):
    done = run(folder, *arguments, "--json", "r.json")
    assert done.returncode == 0, (arguments, done)
    with open(f"{folder}/r.json") as file:
        result = json.load(file)
    assert f"bottleneck: the {result['bottleneck']}" in done.stdout, done.stdout
    slower = result["feed_images_per_second"] < result["step_images_per_second"]
    assert result["bottleneck"] == ("feed" if slower else "step"), result
    return result, done


def refused(folder, text, *arguments):
    done = run(folder, *arguments)
    assert done.returncode == 2 and text in done.stderr, (text, done)


with tempfile.TemporaryDirectory() as folder:
    sources = write(folder)
    for source, height in sources:
        result, done = measured(folder, *source, "--model", "ResNet20")
        files = 2 if len(source) == 2 else 5 if source == ["cifar"] else 1
        assert result["images"] == COUNT * files, (source, result)
        assert result["height"] == height and result["batch"] == 4, (source, result)
        assert result["classes"] == (10 if height == 32 else CLASSES), (source, result)
        assert result["both_images_per_second"] > 0 and 0 <= result["waiting_pct"] <= 100, result
        assert "both: 0.02 s" in done.stderr, done.stderr
    # A device of a given rate: nothing is trained, and the verdict follows from the feed's rate.
    fast, done = measured(folder, "images", "--device-rate", "1e9", "--workers", "2")
    assert fast["bottleneck"] == "feed" and "both_images_per_second" not in fast, fast
    assert "--workers is 2" in done.stdout and "as given" in done.stdout, done.stdout
    slow, _ = measured(folder, "mnist", "--device-rate", "0.5")
    assert slow["bottleneck"] == "step" and slow["step_images_per_second"] == 0.5, slow

    # Images that are none: the rates are of what stood for them, and that is said.
    assert fast["skipped"] == slow["skipped"] == 0 and "no image" not in done.stdout, fast
    with open(f"{folder}/images/1/1.png", "wb") as file:
        file.write(b"no picture")
    corrupt, done = measured(folder, "images", "--device-rate", "1")
    assert corrupt["skipped"] > 0 and "images/1/1.png" in done.stdout, done.stdout
    with open(f"{folder}/a.rec", "ab") as file:  # a record that its index does not list
        file.write(bytes(8))
    packing = "leave corrupt records out by packing the rest with gx_records --pack and --skip-"
    corrupt, done = measured(folder, "a.rec", "--device-rate", "1")
    assert corrupt["skipped"] == 1 and packing in done.stdout, done.stdout
    os.rename(f"{folder}/mnist/train-images-idx3-ubyte", f"{folder}/digits")
    refused(folder, packing, "digits")
    os.rename(f"{folder}/digits", f"{folder}/mnist/train-images-idx3-ubyte")

    refused(folder, "There are: ResNet18", "images", "--model", "VGG")
    refused(folder, "Did you mean 'ResNet50'?", "images", "--model", "ResNet5")
    refused(folder, "do not fit LeNet", "images", "--model", "LeNet", "--side", "4")
    refused(folder, "has 24 images: ask for as many at most", "images", "--batch", "25")
    refused(folder, "'images' is one too many", "mnist", "images")
    os.remove(f"{folder}/mnist/train-labels-idx1-ubyte")
    refused(folder, "train-labels-idx1-ubyte", "mnist")
