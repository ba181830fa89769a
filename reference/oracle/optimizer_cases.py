"""The run that the fixtures of optimizers follow, and tests/optimizer/run_50.hpp too.

Five tensors of four roles, 57 steps of which 7 are skipped as overflows are, a rate that falls to a
tenth after 29 steps. All numbers are exact in float.
"""
import struct

TENSORS = [("weight", 96), ("weight", 40), ("bias", 8), ("gamma", 4), ("beta", 4)]
STEPS = 57


def single(x):
    """The float nearest to x, as a double."""
    return struct.unpack("f", struct.pack("f", x))[0]


def numbers(count, stream):
    """Multiples of 2^-6 from -2 to 2, exact in float; neighbours differ."""
    return [((i * 37 + stream * 101 + 11) % 257 - 128) / 64 for i in range(count)]


def initial(tensor):
    return numbers(TENSORS[tensor][1], tensor)


def gradient(tensor, step):
    return numbers(TENSORS[tensor][1], 1000 + 7 * tensor + 19 * step)


def skipped(step):
    return step % 8 == 5


def rate(step, peak):
    return single(peak) if step < 29 else single(peak / 10)


def array(name, values):
    values = [float(v).hex() for v in values]
    lines = [", ".join(values[i:i + 4]) for i in range(0, len(values), 4)]
    print(f"inline constexpr double {name}[] = {{\n    " + ",\n    ".join(lines) + "};")
