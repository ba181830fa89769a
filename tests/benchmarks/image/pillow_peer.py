"""What a worker of torchvision does: decode, crop, resize antialiased, flip, to a tensor of 8 bits.

Run: python3 pillow_peer.py FILE CROPS WAY
Reads a line for each round, and writes the processor seconds of that round, below a line of
versions.
WAY: pillow (without torchvision, by the same calls as it makes)
     worker (torchvision on Pillow's images, as ImageFolder has them)
     tensor (torchvision.io.decode_jpeg, then torchvision's resizing of tensors of 8 bits)
"""
import io
import sys
import time

way = sys.argv[3]
try:
    if way != "tensor":
        import PIL
        from PIL import Image
    if way != "pillow":
        import torch
        import torchvision
        from torchvision.transforms import functional as F
        torch.set_num_threads(1)
except ImportError as e:
    sys.exit(f"pillow_peer.py: {sys.executable} has no {e.name}, so '{way}' is left out as a "
             "peer: name another with --python; Debian's python3-pil has Pillow alone, "
             "--torchvision fetches both")

data = open(sys.argv[1], "rb").read()
crops = [tuple(map(int, line.split())) for line in open(sys.argv[2])]


def pillow(left, top, width, height, mirrored):
    image = Image.open(io.BytesIO(data)).convert("RGB")
    image = image.crop((left, top, left + width, top + height))
    image = image.resize((224, 224), Image.BILINEAR)
    if mirrored:
        image = image.transpose(Image.FLIP_LEFT_RIGHT)
    image.tobytes()


def worker(left, top, width, height, mirrored):
    image = Image.open(io.BytesIO(data)).convert("RGB")
    image = F.resized_crop(image, top, left, height, width, [224, 224])
    if mirrored:
        image = F.hflip(image)
    F.pil_to_tensor(image)


def tensor(left, top, width, height, mirrored):
    image = torchvision.io.decode_jpeg(encoded, torchvision.io.ImageReadMode.RGB)
    image = F.resized_crop(image, top, left, height, width, [224, 224], antialias=True)
    if mirrored:
        image = F.hflip(image)
    image.contiguous()


show = {"pillow": pillow, "worker": worker, "tensor": tensor}[way]
if way == "tensor":
    encoded = torch.frombuffer(bytearray(data), dtype=torch.uint8)
versions = {"pillow": lambda: f"Pillow {PIL.__version__}",
            "worker": lambda: f"torchvision {torchvision.__version__}, Pillow {PIL.__version__}",
            "tensor": lambda: f"torchvision {torchvision.__version__}, tensors"}
print(versions[way](), flush=True)
for _ in sys.stdin:
    begin = time.process_time()
    for crop in crops:
        show(*crop)
    print(time.process_time() - begin, flush=True)
