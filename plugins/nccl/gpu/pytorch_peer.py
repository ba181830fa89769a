"""How many images a second ResNet-50 trains in PyTorch on one GPU, as gx_nccl_train_speed does.

usage: pytorch_peer.py BATCH JSON [STEPS]     (needs torch with CUDA)

fp16 with a gradient scaler and bf16, both by autocast; channels last, fused SGD with momentum 0.9,
cuDNN's benchmark mode; eager, then torch.compile(mode="max-autotune"), which has CUDA graphs. In
favour of PyTorch: the batch is on the GPU already, and the loss is never read. The network is that
of gx: bottleneck blocks, the stride in the 3x3 convolution, 25,557,032 parameters.

JSON is written after each figure, so one that fails or is stopped takes none along; the exit status
is 1 if one failed.
"""
import gc
import json
import sys
import time
import traceback

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    sys.exit(f"PyTorch is missing: {error}")
if not torch.cuda.is_available():
    sys.exit("PyTorch finds no GPU: a build of it without CUDA, or no driver")


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(4 * width)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != 4 * width:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False),
                                          nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        return F.relu(self.norm3(self.conv3(y)) + self.shortcut(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
              nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if i == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def images_per_second(batch, steps, dtype, compiled):
    torch.manual_seed(0)
    model = resnet50().cuda().to(memory_format=torch.channels_last).train()
    assert sum(p.numel() for p in model.parameters()) == 25557032
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-5,
                                fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
    images = torch.randn(batch, 3, 224, 224, device="cuda")
    images = images.to(memory_format=torch.channels_last)
    labels = torch.arange(batch, device="cuda") % 1000

    def loss_of(x, y):
        with torch.autocast("cuda", dtype=dtype):
            return F.cross_entropy(model(x), y)

    loss = torch.compile(loss_of, mode="max-autotune") if compiled else loss_of

    def train(count):
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss(images, labels)).backward()
            scaler.step(optimizer)
            scaler.update()
        torch.cuda.synchronize()

    train(10)
    begin = time.perf_counter()
    train(steps)
    return batch * steps / (time.perf_counter() - begin)


def main():
    batch, path = int(sys.argv[1]), sys.argv[2]
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 30
    torch.backends.cudnn.benchmark = True
    result = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
              "gpu": torch.cuda.get_device_name(), "batch": batch, "steps": steps,
              "in_favour_of_pytorch": "the batch is on the GPU, and the loss is not read",
              "fp16": {}, "bf16": {}}
    failed = False
    for how in ("eager", "compiled"):
        for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
            begin = time.perf_counter()
            try:
                speed = images_per_second(batch, steps, dtype, how == "compiled")
                result[name][f"{how}_images_per_second"] = speed
                text = f"{speed:.0f} images/s"
            except Exception as error:
                traceback.print_exc()
                result[name][f"{how}_error"] = text = f"{type(error).__name__}: {error}"[:300]
                failed = True
            with open(path, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=2)
                file.write("\n")
            print(f"{how} {name}: {text} ({time.perf_counter() - begin:.0f} s)", flush=True)
            torch.compiler.reset()
            gc.collect()
            torch.cuda.empty_cache()
    sys.exit(failed)


main()
