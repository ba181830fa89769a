"""What a worker of torchvision does: Image.open, crop, resize, flip, to a tensor of 8 bits.

Run: python3 pillow_peer.py FILE CROPS
Reads a line for each round, and writes the processor seconds of that round, below a line of
versions. Without torchvision: Pillow alone, with the same calls.
"""
import io
import sys
import time

try:
    import PIL
    from PIL import Image
except ImportError:
    sys.exit(f"pillow_peer.py: {sys.executable} has no Pillow, so it is left out as a peer: "
             "apt-get install python3-pil, or name another with --python")

try:
    import torch
    import torchvision
    from torchvision.transforms import functional as F
    torch.set_num_threads(1)
    name = f"torchvision {torchvision.__version__}, Pillow {PIL.__version__}"
except ImportError:
    F = None
    name = f"Pillow {PIL.__version__}"
print(name, flush=True)

data = open(sys.argv[1], "rb").read()
crops = [tuple(map(int, line.split())) for line in open(sys.argv[2])]
for _ in sys.stdin:
    begin = time.process_time()
    for left, top, width, height, mirrored in crops:
        image = Image.open(io.BytesIO(data)).convert("RGB")
        if F:
            image = F.resized_crop(image, top, left, height, width, [224, 224])
            if mirrored:
                image = F.hflip(image)
            F.pil_to_tensor(image)
        else:
            image = image.crop((left, top, left + width, top + height))
            image = image.resize((224, 224), Image.BILINEAR)
            if mirrored:
                image = image.transpose(Image.FLIP_LEFT_RIGHT)
            image.tobytes()
    print(time.process_time() - begin, flush=True)
