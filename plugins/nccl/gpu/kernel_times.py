"""What one training step spends in each kernel: a table and JSON of ncu's CSV.

usage: kernel_times.py CSV JSON

CSV is what `ncu --csv --metrics gpu__time_duration.sum,dram__bytes.sum` prints around
gx_nccl_train_speed. A step begins with the kernel that normalises the batch's pixels; the last
whole step is taken, which is not the first. What was trained is read from the program's own line,
if it printed one alone.

Kernels are summed by name and by kind. Products before the loss are forward; behind it they run
from one batch norm to the next, first the input gradient, then the weight gradient, and end where
that gradient is decoded. Without a kernel of the loss they are not told apart.
"""
import csv
import json
import re
import sys

FIRST_KERNELS = "pack_pixels_kernel", "pack_pixel_blocks_kernel"  # that only a step begins with
TIME, BYTES = "gpu__time_duration.sum", "dram__bytes.sum"
UNITS = {"ns": 1e-6, "nsecond": 1e-6, "us": 1e-3, "usecond": 1e-3, "ms": 1, "msecond": 1,  # ms
         "byte": 1e-9, "Kbyte": 1e-6, "Mbyte": 1e-3, "Gbyte": 1}                           # GB
LETTERS, LETTERS_OF_TABLE = 160, 84

PRODUCTS = "products"
FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = (
    f"{PRODUCTS}, {part}" for part in ("forward", "input gradient", "weight gradient"))
NORM_FORWARD, NORM_BACKWARD = "batch norm, forward", "batch norm, backward"
POOLS, INPUT, LOSS, OPTIMIZER = "pools", "input", "loss", "optimizer"
COPIES, OTHER = "casts, copies and sums", "other"
KINDS = (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, PRODUCTS, NORM_FORWARD, NORM_BACKWARD, POOLS,
         INPUT, LOSS, OPTIMIZER, COPIES, OTHER)  # in the order of the table
KERNELS_OF_GX = {  # NAME_kernel
    NORM_FORWARD: "moments train_norms summed_norms running_norms normalise_rows normalise_both",
    NORM_BACKWARD: "gradient_sums gradient_norms input_gradient",
    POOLS: "average_pool average_pool_gradient",
    INPUT: "pack_pixels pack_pixel_blocks pack_images pack_blocks normalise",
    LOSS: "loss loss_gradient report check found",
    OPTIMIZER: "sgd adam lars lars_rates lamb_rates squared_updates squared_norms squared_sum "
               "sum_norms store_norms load_norms load_sum clip begin_average move_average "
               "preview_update count none any is_zero decide begin_step begin_update outcome",
    COPIES: "apply transpose copy_channels weights_to_blocks gradient_from_blocks swap_if sum "
            "add_residual add_indexed average"}
KIND_OF_GX = {name: kind for kind, names in KERNELS_OF_GX.items() for name in names.split()}
KINDS_OF_LIBRARIES = (  # the first whose words are in the name of a kernel of cuDNN or cuBLAS
    (POOLS, re.compile(r"resample|pooling", re.I)),
    (COPIES, re.compile(r"cudnn_generated_(reduction|pointwise)|op_tensor", re.I)),
    (PRODUCTS, re.compile(r"nvjet|xmma|cutlass|cask|gemm|gemv|splitK|init_device_workspace|wgrad|"
                          r"dgrad|fprop|convolve|convFwd|genStats|nhwcAddPadding|nchwToNhwc|"
                          r"nhwcToNchw|implicit_con|winograd|dot_kernel", re.I)))
PREPARES = re.compile(r"init_device_workspace|AddPadding|nchwToNhwc")  # for the product behind it
FINISHES = re.compile(r"splitKreduce|split_k_kernel|nhwcToNchw")       # the product before it
ENDS = re.compile(r"\bDecode<|gradient_from_blocks|gradient_sums|input_gradient")  # the products
TRAINED = re.compile(r"(Trainer<.*>) +(\d+) x +(\d+) +\d+ images/s")
NOTE = ("ncu runs each kernel alone, with caches flushed before it and clocks as they are: kernels "
        "that would run side by side, or find in the L2 cache what the one before wrote, take more "
        "time and traffic here than in a step, and gaps between kernels are not counted")


def short_name(name):
    """Without result, unnamed namespaces and arguments; template arguments stay."""
    name = name.replace("<unnamed>::", "").replace("(anonymous namespace)::", "")
    depth = 0
    for i, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            name = name[:i]
            break
    return name.removeprefix("void ")


def cut(name, letters):
    return name if len(name) <= letters else name[:letters - 3] + "..."


def kind_of(name):
    """Of the kernel of this name alone: products are not told apart."""
    own = re.match(r"gx::(?:\w+::)*(\w+)_kernel\b", name)
    if own:
        return KIND_OF_GX.get(own.group(1), OTHER)
    return next((kind for kind, words in KINDS_OF_LIBRARIES if words.search(name)), OTHER)


def weight_gradient_in(names):
    """Where in the products of one layer's backward its weight gradient begins: at the first that
    says so, else at the second product; one product is a weight gradient, as of the first layer."""
    named = [i for i, name in enumerate(names) if "wgrad" in name]
    products = [i for i, name in enumerate(names)
                if not PREPARES.search(name) and not FINISHES.search(name)]
    begin = named[0] if named else products[1] if len(products) > 1 else 0
    while begin > 0 and PREPARES.search(names[begin - 1]):
        begin -= 1
    return begin


def kinds_of(names):
    """Of each kernel of a step, in their order."""
    kinds = [kind_of(name) for name in names]
    if LOSS not in kinds:
        return kinds
    loss, layer = kinds.index(LOSS), []

    def place():
        begin = weight_gradient_in([names[i] for i in layer])
        for at, i in enumerate(layer):
            kinds[i] = INPUT_GRADIENT if at < begin else WEIGHT_GRADIENT
        layer.clear()

    for i, name in enumerate(names):
        if kinds[i] == PRODUCTS and i < loss:
            kinds[i] = FORWARD
        elif kinds[i] == PRODUCTS:
            layer.append(i)
        elif ENDS.search(name):
            place()
    place()
    return kinds


def kernels_of(lines):
    """Of each kernel launch in order: its name, milliseconds and gigabytes of DRAM; and the lines
    before them, with what the program printed."""
    said = []
    for line in lines:
        if line.startswith('"ID"'):
            break
        said.append(line)
    else:
        errors = [line.strip() for line in said if line.startswith("==ERROR==")]
        sys.exit("ncu recorded no kernel" + "".join(f"; {error}" for error in errors))
    launches = {}
    for row in csv.DictReader(lines, fieldnames=next(csv.reader([line]))):
        if not (row["ID"] or "").isdigit() or row["Metric Name"] not in (TIME, BYTES):
            continue
        launch = launches.setdefault(int(row["ID"]), {"name": row["Kernel Name"]})
        if row["Metric Unit"] not in UNITS:
            sys.exit(f"{row['Metric Name']}: '{row['Metric Unit']}' is not a known unit: expected "
                     + ", ".join(UNITS))
        value = row["Metric Value"].replace(",", "")
        launch[row["Metric Name"]] = float(value) * UNITS[row["Metric Unit"]]
    return [(launch["name"], launch.get(TIME, 0.0), launch.get(BYTES, 0.0))
            for _, launch in sorted(launches.items())], said


def trained_in(said):
    """The composition, GPUs and batch of the one training that the program timed; else nulls."""
    lines = [match for match in map(TRAINED.match, said) if match]
    composition, gpus, batch = lines[0].groups() if len(lines) == 1 else (None, None, None)
    return {"composition": composition, "gpus": gpus and int(gpus), "batch": batch and int(batch)}


def figures(milliseconds, gigabytes):
    return {"milliseconds": round(milliseconds, 6), "dram_gigabytes": round(gigabytes, 6),
            "gb_per_second": round(1e3 * gigabytes / milliseconds, 1) if milliseconds else 0}


def step_of(kernels):
    begins = [i for i, kernel in enumerate(kernels)
              if any(first in kernel[0] for first in FIRST_KERNELS)]
    if len(begins) < 3:
        sys.exit(f"{len(kernels)} kernels hold {len(begins)} begins of a step "
                 f"({' or '.join(FIRST_KERNELS)}): "
                 "expected 3, for a whole step behind the first. Profile more kernels")
    return len(begins) - 1, kernels[begins[-2]:begins[-1]]


def sums_by(names, step):
    sums = {}
    for name, (_, milliseconds, gigabytes) in zip(names, step):
        one = sums.setdefault(name, [0, 0.0, 0.0])
        one[0] += 1
        one[1] += milliseconds
        one[2] += gigabytes
    return {name: {"count": count, **figures(milliseconds, gigabytes)}
            for name, (count, milliseconds, gigabytes) in
            sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))}


def summary(kernels, said):
    number, step = step_of(kernels)
    names = [short_name(kernel[0]) for kernel in step]
    by_kind, by_name = sums_by(kinds_of(names), step), sums_by(names, step)
    return {"note": NOTE, **trained_in(said), "step": number, "kernels_of_step": len(step),
            **figures(sum(k[1] for k in step), sum(k[2] for k in step)),
            "kinds": [{"kind": kind, **by_kind[kind]} for kind in KINDS if kind in by_kind],
            "kernels": [{"name": cut(name, LETTERS), **row} for name, row in by_name.items()]}


def print_rows(head, rows):
    print(f"{'ms':>9} {'count':>6} {'GB':>9} {'GB/s':>7}  {head}")
    for row in rows:
        print(f"{row['milliseconds']:9.3f} {row['count']:6} {row['dram_gigabytes']:9.3f} "
              f"{row['gb_per_second']:7.0f}  {cut(row[head], LETTERS_OF_TABLE)}")


def print_table(result):
    print(f"step {result['step']}; {result['note']}")
    print_rows("name", result["kernels"] +
               [{**result, "name": "all", "count": result["kernels_of_step"]}])
    print_rows("kind", result["kinds"])


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: kernel_times.py CSV JSON")
    with open(sys.argv[1], encoding="utf-8", errors="replace", newline="") as file:
        result = summary(*kernels_of(iter(file)))
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(result, file, indent=2)
        file.write("\n")
    print_table(result)


main()
