"""Numbers that a fixture and its test make alike, and arrays as a fixture's header has them."""
import torch

torch.set_num_threads(1)


def numbers(count, stream):
    """Multiples of 2^-6 from -2 to 2, exact in float; neighbours differ."""
    return torch.tensor([((i * 37 + stream * 101 + 11) % 257 - 128) / 64 for i in range(count)],
                        dtype=torch.float64)


def array(name, tensor):
    values = [float(v).hex() for v in tensor.detach().flatten()]
    lines = [", ".join(values[i:i + 4]) for i in range(0, len(values), 4)]
    print(f"inline constexpr double {name}[] = {{\n    " + ",\n    ".join(lines) + "};")
