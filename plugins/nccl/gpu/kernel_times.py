"""What one training step spends in each kernel: a table and JSON of ncu's CSV.

usage: kernel_times.py CSV JSON

CSV is what `ncu --csv --metrics gpu__time_duration.sum,dram__bytes.sum` prints around
gx_nccl_train_speed. A step begins with the kernel that normalises the batch's pixels; the last
whole step is taken, which is not the first.
"""
import csv
import json
import sys

FIRST_KERNELS = "pack_pixels_kernel", "pack_pixel_blocks_kernel"  # that only a step begins with
TIME, BYTES = "gpu__time_duration.sum", "dram__bytes.sum"
UNITS = {"ns": 1e-6, "nsecond": 1e-6, "us": 1e-3, "usecond": 1e-3, "ms": 1, "msecond": 1,  # ms
         "byte": 1e-9, "Kbyte": 1e-6, "Mbyte": 1e-3, "Gbyte": 1}                           # GB
LETTERS, LETTERS_OF_TABLE = 160, 84
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


def kernels_of(lines):
    """Of each kernel launch in order: its name, milliseconds and gigabytes of DRAM."""
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
            for _, launch in sorted(launches.items())]


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


def summary(kernels):
    number, step = step_of(kernels)
    sums = {}
    for name, milliseconds, gigabytes in step:
        one = sums.setdefault(short_name(name), [0, 0.0, 0.0])
        one[0] += 1
        one[1] += milliseconds
        one[2] += gigabytes
    rows = [{"name": cut(name, LETTERS), "count": count, **figures(milliseconds, gigabytes)}
            for name, (count, milliseconds, gigabytes) in
            sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))]
    return {"note": NOTE, "step": number, "kernels_of_step": len(step),
            **figures(sum(k[1] for k in step), sum(k[2] for k in step)), "kernels": rows}


def print_table(result):
    print(f"step {result['step']}; {result['note']}")
    print(f"{'ms':>9} {'count':>6} {'GB':>9} {'GB/s':>7}  kernel")
    rows = result["kernels"] + [{**result, "name": "all", "count": result["kernels_of_step"]}]
    for row in rows:
        print(f"{row['milliseconds']:9.3f} {row['count']:6} {row['dram_gigabytes']:9.3f} "
              f"{row['gb_per_second']:7.0f}  {cut(row['name'], LETTERS_OF_TABLE)}")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: kernel_times.py CSV JSON")
    with open(sys.argv[1], encoding="utf-8", errors="replace", newline="") as file:
        result = summary(kernels_of(iter(file)))
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(result, file, indent=2)
        file.write("\n")
    print_table(result)


main()
