#!/usr/bin/env python3
"""torchvision's side of a test that exchanges weights with gx by safetensors files.

    torchvision_peer.py ask
    torchvision_peer.py write CONSTRUCTOR SIDE FOLDER
    torchvision_peer.py check CONSTRUCTOR FOLDER

`ask` fails where a module is missing. `write` makes random weights and running statistics, and
writes FOLDER/theirs.safetensors, with two images and their logits (in double) in
FOLDER/run.safetensors. `check` takes FOLDER/gx.safetensors by load_state_dict and requires that
every number is that of theirs.safetensors."""
import sys

import torch
from safetensors.torch import load_file, save_file

from torchvision_models import filled, images, logits_in_double, made


def write(constructor, side, folder):
    torch.manual_seed(1)
    model = filled(constructor)
    with torch.no_grad():
        for name, t in model.state_dict().items():
            if t.is_floating_point():
                t.mul_(torch.empty_like(t).uniform_(0.75, 1.25))
    save_file(model.state_dict(), folder + "/theirs.safetensors")
    x = images(side)
    save_file({"images": x, "logits": logits_in_double(model, side).contiguous()},
              folder + "/run.safetensors")


def check(constructor, folder):
    theirs, mine = (load_file(folder + name) for name in ("/theirs.safetensors", "/gx.safetensors"))
    model = made(constructor)
    model.load_state_dict(mine, strict=True)
    for name, t in model.state_dict().items():
        if t.is_floating_point() and not torch.equal(t, theirs[name]):
            sys.exit(f"{name} has changed on its way through gx")


command, *arguments = sys.argv[1:]
if command == "write":
    write(arguments[0], int(arguments[1]), arguments[2])
if command == "check":
    check(*arguments)
