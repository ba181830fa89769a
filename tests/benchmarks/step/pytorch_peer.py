"""A peer of gx_bench_step: training steps of a ResNet in PyTorch, channels last.

    python pytorch_peer.py MODEL BATCH HOW THREADS [SIZE...]

HOW is one of fp32-eager, fp32-compiled, autocast-eager, autocast-compiled, bf16-eager and
bf16-compiled: parameters in fp32, operations in bf16 where PyTorch's autocast has them so, or all
in bf16, SGD too. SIZE: heights of the images, in place of the model's. Prints "ready" with
PyTorch's version after three steps of each size, which compile. Then reads lines from stdin:

    STEPS [SIZE]   runs them, on images of that size, and prints the seconds of each on one line
    peak           runs two steps; prints their peak of resident memory, in bytes, without what was
                   resident before the model was made
"""
import contextlib
import sys
import time

import torch
from torch import nn


def conv(inputs, outputs, size, stride):
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)


class Block(nn.Module):
    """Convolutions of `layers` (outputs, size, stride) beside a shortcut."""

    def __init__(self, inputs, layers):
        super().__init__()
        body, width, stride = [], inputs, 1
        for outputs, size, by in layers:
            body += [conv(width, outputs, size, by), nn.BatchNorm2d(outputs), nn.ReLU(True)]
            width, stride = outputs, stride * by
        self.body = nn.Sequential(*body[:-1])
        self.shortcut = nn.Sequential()
        if stride != 1 or width != inputs:
            self.shortcut = nn.Sequential(conv(inputs, width, 1, stride), nn.BatchNorm2d(width))

    def forward(self, x):
        return torch.relu_(self.body(x) + self.shortcut(x))


def resnet(model):
    """The network, and the height of its images and its classes."""
    if model == "ResNet20":
        stem = [conv(3, 16, 3, 1), nn.BatchNorm2d(16), nn.ReLU(True)]
        stages, factor, size, classes, first = [(16, 3), (32, 3), (64, 3)], 1, 32, 10, 16
    else:
        stem = [conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
        stages, factor, size, classes, first = (
            [(64, 3), (128, 4), (256, 6), (512, 3)], 4, 224, 1000, 64)
    layers, width = stem, first
    for stage, (channels, blocks) in enumerate(stages):
        for block in range(blocks):
            by = 2 if stage > 0 and block == 0 else 1
            body = ([(channels, 3, by), (channels, 3, 1)] if factor == 1 else
                    [(channels, 1, 1), (channels, 3, by), (4 * channels, 1, 1)])
            layers.append(Block(width, body))
            width = factor * channels
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]
    return nn.Sequential(*layers), size, classes


def memory(field):
    """Bytes of a line of /proc/self/status."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


def main():
    model, batch, how, threads = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    before = memory("VmRSS")
    kind, mode = how.split("-")
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    net, size, classes = resnet(model)
    net = net.to(dtype=dtype, memory_format=torch.channels_last)
    sizes = [int(word) for word in sys.argv[5:]] or [size]
    images = {side: torch.randn(batch, 3, side, side).to(
        dtype=dtype, memory_format=torch.channels_last) for side in sizes}
    labels = torch.arange(batch) * 7 % classes
    sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)

    def loss_of(images):
        with (torch.autocast("cpu", torch.bfloat16)
              if kind == "autocast" else contextlib.nullcontext()):
            return nn.functional.cross_entropy(net(images), labels)

    if mode == "compiled":
        loss_of = torch.compile(loss_of, dynamic=False)

    def step(size=sizes[0]):
        begin = time.perf_counter()
        sgd.zero_grad()
        loss_of(images[size]).backward()
        sgd.step()
        return time.perf_counter() - begin

    for size in sizes:
        for _ in range(3):
            step(size)
    print("ready", torch.__version__.split("+")[0], flush=True)
    for line in sys.stdin:
        if line.strip() == "peak":
            with open("/proc/self/clear_refs", "w") as peak:
                peak.write("5")  # begins anew
            step(), step()
            print(memory("VmHWM") - before, flush=True)
            continue
        steps, *of = map(int, line.split())
        print(*(f"{step(*of):.9f}" for _ in range(steps)), flush=True)


main()
