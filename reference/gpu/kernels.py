"""Rows of measure.py: single operations, named as gx::OpKind names them, and how to run them."""
import math

import torch
import torch.nn.functional as F

from timing import set_precision

# ResNet-50 at 224x224, each convolution once: (in, out, pixels a side, window, stride).
RESNET50 = [(3, 64, 224, 7, 2),
            (64, 64, 56, 1, 1), (64, 64, 56, 3, 1), (64, 256, 56, 1, 1), (256, 64, 56, 1, 1),
            (256, 128, 56, 1, 1), (128, 128, 56, 3, 2), (256, 512, 56, 1, 2),
            (128, 128, 28, 3, 1), (128, 512, 28, 1, 1), (512, 128, 28, 1, 1),
            (512, 256, 28, 1, 1), (256, 256, 28, 3, 2), (512, 1024, 28, 1, 2),
            (256, 256, 14, 3, 1), (256, 1024, 14, 1, 1), (1024, 256, 14, 1, 1),
            (1024, 512, 14, 1, 1), (512, 512, 14, 3, 2), (1024, 2048, 14, 1, 2),
            (512, 512, 7, 3, 1), (512, 2048, 7, 1, 1), (2048, 512, 7, 1, 1)]
# Squares, layers of BERT-large, VGG-16 and GPT-2, and sizes that suit no tensor core:
# (batch, in, out).
LINEAR = [(8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024),
          (4096, 1024, 4096), (4096, 4096, 1024), (4096, 1024, 1024), (64, 2048, 1000),
          (64, 25088, 4096), (8192, 768, 50257), (4096, 1000, 1000), (4096, 1004, 1004),
          (4096, 1002, 1002), (4096, 1001, 1001)]
# (kind, batch, channels, height, width, window, stride)
OTHER = [("batch_norm", 64, 64, 112, 112, 1, 1), ("batch_norm", 64, 256, 56, 56, 1, 1),
         ("batch_norm", 64, 2048, 7, 7, 1, 1), ("relu", 64, 256, 56, 56, 1, 1),
         ("relu", 64, 2048, 7, 7, 1, 1), ("add", 64, 256, 56, 56, 1, 1),
         ("max_pool", 64, 64, 112, 112, 3, 2), ("avg_pool", 64, 2048, 7, 7, 7, 1),
         ("embedding", 32, 1024, 512, 1, 1, 1), ("layer_norm", 32, 1024, 512, 1, 1, 1),
         ("gelu", 32, 4096, 512, 1, 1, 1), ("dropout", 32, 1024, 512, 1, 1, 1),
         ("softmax", 32, 16, 512, 512, 1, 1)]
VOCABULARY = 30522


def row(kind, precision, batch, channels, height=1, width=1, outputs=0, window=1, stride=1):
    """A row as the file has it. `height` counts tokens where the kind reads them, and of a softmax
    `channels` counts heads; `outputs` is told of products, `window` where there is one."""
    r = {"kind": kind, "precision": precision, "batch": batch, "channels": channels,
         "height": height, "width": width}
    if outputs:
        r["outputs"] = outputs
    if kind in ("conv2d", "max_pool", "avg_pool"):
        r["window"], r["stride"] = window, stride
    return r


def rows(smoke):
    all_rows = []
    for precision in ("fp32", "tf32", "fp16", "bf16"):
        for batch, channels, outputs in LINEAR:
            all_rows.append(row("linear", precision, batch, channels, outputs=outputs))
        if precision != "tf32":
            all_rows += [row(k, precision, n, c, h, w, 0, window, stride)
                         for k, n, c, h, w, window, stride in OTHER]
        for batch in ((64, 256) if precision == "fp16" else (64,)):
            all_rows += [row("conv2d", precision, batch, c, size, size, out, window, stride)
                         for c, out, size, window, stride in RESNET50]
    if not smoke:
        return all_rows
    seen, few = set(), []
    for r in all_rows:
        if (r["kind"], r["precision"]) in seen:
            continue
        seen.add((r["kind"], r["precision"]))
        for field, most in (("batch", 2), ("channels", 16), ("outputs", 24), ("height", 14),
                            ("width", 14)):
            if field in r:
                r[field] = min(r[field], most)
        few.append(r)
    return few


def inputs(r, device, dtype):
    """Input, parameters, and the call, on memory of its own."""
    n, c, h, w = r["batch"], r["channels"], r["height"], r["width"]

    def numbers(*shape):
        x = torch.randn(*shape, device=device, dtype=torch.float32).to(dtype)
        if len(shape) == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return x.requires_grad_()

    kind, window, stride = r["kind"], r.get("window", 1), r.get("stride", 1)
    if kind == "linear":
        x, p = numbers(n, c), [numbers(r["outputs"], c)]
        return x, p, lambda: F.linear(x, p[0])
    if kind == "conv2d":
        x, p = numbers(n, c, h, w), [numbers(r["outputs"], c, window, window)]
        return x, p, lambda: F.conv2d(x, p[0], stride=stride, padding=window // 2)
    if kind == "embedding":
        table = numbers(VOCABULARY, c)
        tokens = torch.randint(0, VOCABULARY, (n, h), device=device)
        return None, [table], lambda: F.embedding(tokens, table)
    if kind == "layer_norm":
        x, p = numbers(n, h, c), [numbers(c), numbers(c)]
        return x, p, lambda: F.layer_norm(x, (c,), p[0], p[1])
    if kind == "softmax":  # one row of `width` for each token of each head
        x = numbers(n * c, h, w)
        return x, [], lambda: torch.softmax(x, -1)
    if kind in ("gelu", "dropout"):
        x = numbers(n, h, c)
        return x, [], lambda: F.gelu(x) if kind == "gelu" else F.dropout(x, 0.1)
    x = numbers(n, c, h, w)
    if kind == "batch_norm":
        p = [torch.randn(c, device=device).requires_grad_() for _ in range(2)]
        return x, p, lambda: F.batch_norm(x, None, None, p[0], p[1], training=True)
    if kind == "add":
        other = numbers(n, c, h, w)
        return x, [other], lambda: x + other
    if kind == "relu":
        return x, [], lambda: F.relu(x)
    if kind == "max_pool":
        return x, [], lambda: F.max_pool2d(x, window, stride, padding=window // 2)
    return x, [], lambda: F.avg_pool2d(x, window, stride)


def measure(r, clock):
    """Adds forward_us and backward_us to the row; for products the backward in its two parts."""
    dtype = set_precision(r["precision"])
    element_bytes = torch.finfo(dtype).bits // 8
    moved = element_bytes * r["batch"] * r["height"] * r["width"] * (
        r["channels"] + r.get("outputs", r["channels"]))
    copies = min(8, max(1, math.ceil(200e6 / moved)))  # beyond the L2 cache, of 50 MB on an H100
    made = [inputs(r, clock.device, dtype) for _ in range(copies if clock.cuda else 2)]
    r["forward_us"] = clock.kernel_us([forward for _, _, forward in made])
    if r["kind"] == "add":  # autograd hands the gradient on: no kernel
        return
    done = []
    for x, p, forward in made:
        y = forward()
        done.append((y, torch.randn_like(y), [] if x is None else [x], p))

    def backward(wanted):
        calls = [lambda y=y, dy=dy, to=wanted(x, p):
                 torch.autograd.grad(y, to, dy, retain_graph=True) for y, dy, x, p in done]
        return clock.kernel_us(calls)

    if r["kind"] in ("linear", "conv2d"):
        r["backward_data_us"] = backward(lambda x, p: x)
        r["backward_weight_us"] = backward(lambda x, p: p)
        r["backward_us"] = r["backward_data_us"] + r["backward_weight_us"]
    else:
        r["backward_us"] = backward(lambda x, p: x + p)
