"""torchvision's networks with ten classes and weights that a test in C++ makes alike."""
import zlib

import numpy
import torch
import torchvision

torch.set_num_threads(2)

CLASSES = 10
# name in gx, torchvision's constructor, side of the image
MODELS = [("ResNet18", "resnet18", 64), ("ResNet34", "resnet34", 64), ("ResNet50", "resnet50", 64),
          ("ResNet101", "resnet101", 64), ("ResNet152", "resnet152", 64),
          ("ResNeXt50", "resnext50_32x4d", 64), ("AlexNet", "alexnet", 224),
          ("Vgg11Bn", "vgg11_bn", 224), ("Vgg13", "vgg13", 224),
          ("Vgg16", "vgg16", 224), ("Vgg19", "vgg19", 224), ("InceptionV3", "inception_v3", 107)]


def made(constructor):
    """A network without trained weights, ready to evaluate."""
    options = {"aux_logits": False, "init_weights": False} if constructor == "inception_v3" else {}
    return getattr(torchvision.models, constructor)(weights=None, num_classes=CLASSES,
                                                    **options).eval()


def numbers(count, stream):
    """Multiples of 2^-15 from -1 up to 1, mixed from place and stream: exact in float."""
    x = numpy.arange(count, dtype=numpy.uint64) * 0x9E3779B1 + stream * 0x85EBCA77
    x = (x & 0xFFFFFFFF).astype(numpy.uint32)
    x ^= x >> 15
    x *= numpy.uint32(0x2C1B3C6D)
    x ^= x >> 12
    return (x >> 16).astype(numpy.float32) / numpy.float32(32768) - numpy.float32(1)


def weight(name, shape):
    """Of variance 2 / fan_in, within a factor of 2; others near what batch norms have."""
    v = numbers(int(numpy.prod(shape)), zlib.crc32(name.encode()))
    if name.endswith("running_var"):
        v = 1 + (v + 1) / 2
    elif len(shape) > 1:
        v = v * numpy.float32(2.0 ** numpy.floor(numpy.log2(6 / numpy.prod(shape[1:])) / 2 + 0.5))
    elif name.endswith(".weight"):
        v = numpy.float32(1.25) + v / 4  # undoes the variances of about 1.5
    else:
        v = v / 4
    return torch.from_numpy(v.astype(numpy.float32).reshape(shape))


def tensors(model):
    """Name and shape of what gx has too."""
    return [(name, tuple(t.shape)) for name, t in model.state_dict().items()
            if not name.endswith("num_batches_tracked")]


def filled(constructor):
    model = made(constructor)
    state = {name: weight(name, shape) for name, shape in tensors(model)}
    model.load_state_dict(state, strict=True)
    return model


def images(side, count=2):
    return torch.from_numpy(numbers(count * 3 * side * side, 1).reshape(count, 3, side, side))


def logits_in_double(model, side):
    with torch.no_grad():
        return model.double()(images(side).double())
