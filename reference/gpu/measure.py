#!/usr/bin/env python3
"""Measures a GPU for gx's simulated one: launches, copies, operations, training steps, memory.

Run:   python3 reference/gpu/measure.py --out measured.json            (on the GPU)
       python3 reference/gpu/measure.py --out part.json --parts steps  (a part of it)
       python3 reference/gpu/measure.py --out smoke.json --smoke       (a CPU, tiny: no measurement)
Then:  gx_measured --file measured.json
Needs: PyTorch 2.4 or newer; torchvision for the steps of ResNet and VGG.

Each time is a median over rounds after a warm-up, by CUDA events; units end the names. A row that
fails says so in 'failed' and the others go on; the file is written after every part.
"""
import argparse
import datetime
import gc
import json
import subprocess
import sys
import time

import torch

import kernels
import networks
from timing import Clock, set_precision

PARTS = ("launch", "copies", "overlap", "kernels", "steps")


def conditions(device):
    """Device, driver, versions, date; 'smoke' where nothing was measured."""
    about = {"date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
             "torch": torch.__version__, "cuda": torch.version.cuda,
             "cudnn": torch.backends.cudnn.version(), "python": sys.version.split()[0]}
    if device.type != "cuda":
        return {**about, "gpu": "cpu", "smoke": True}
    p = torch.cuda.get_device_properties(0)
    asked = ["nvidia-smi", "--query-gpu=driver_version,power.limit,clocks.max.sm,clocks.max.mem",
             "--format=csv,noheader,nounits"]
    driver, watts, sm_mhz, memory_mhz = subprocess.run(
        asked, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    return {**about, "gpu": p.name, "smoke": False, "driver": driver,
            "power_limit_watts": watts, "sm_mhz_max": sm_mhz, "memory_mhz_max": memory_mhz,
            "memory_bytes": p.total_memory, "multiprocessors": p.multi_processor_count}


def launch(clock):
    """From one tiny kernel to the next: issued by PyTorch, queued before, replayed in a graph."""
    x, count = torch.zeros(1024, device=clock.device), 1000

    def tiny():
        for _ in range(count):
            x.add_(1.0)

    issued = 1e3 * clock.step_ms(tiny) / count
    queued = clock.kernel_us([lambda: x.add_(1.0)], 200)
    graph = clock.graph_ms(tiny)
    return {"issued_us": issued, "queued_us": queued, "graph_us": graph and 1e3 * graph / count}


def copies(clock, smoke):
    """Rates on the device (bytes read and written) and over its link, pinned, each way and both."""
    count = (1 << 20) if smoke else (1 << 30)
    a, b = (torch.empty(count, dtype=torch.uint8, device=clock.device) for _ in range(2))
    a.random_(0, 255)
    rows = [{"way": "device", "bytes": 2 * count,
             "gb_per_s": 2 * count / 1e3 / clock.kernel_us([lambda: b.copy_(a)], 5)}]
    host = [torch.empty(count // 4, dtype=torch.uint8, pin_memory=clock.cuda) for _ in range(2)]
    there, back = b[:count // 4], a[:count // 4]

    def rate(way, work, moved):
        rows.append({"way": way, "bytes": moved, "gb_per_s": moved / 1e6 / clock.step_ms(work)})

    rate("to_gpu", lambda: there.copy_(host[0], non_blocking=True), count // 4)
    rate("to_host", lambda: host[1].copy_(back, non_blocking=True), count // 4)
    if clock.cuda:
        streams = [torch.cuda.Stream() for _ in range(2)]

        def both():
            for s in streams:
                s.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(streams[0]):
                there.copy_(host[0], non_blocking=True)
            with torch.cuda.stream(streams[1]):
                host[1].copy_(back, non_blocking=True)
            for s in streams:
                torch.cuda.current_stream().wait_stream(s)

        rate("both", both, count // 2)
    return rows


def overlap(clock):
    """Kernels alone, and beside copies on another stream that outlast them."""
    if not clock.cuda:
        return []
    set_precision("fp16")
    half = {"device": clock.device, "dtype": torch.float16}
    a, b = torch.randn(4096, 4096, **half), torch.randn(4096, 4096, **half)
    maps = torch.randn(64, 256, 56, 56, **half).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(256, 256, 3, 3, **half).contiguous(memory_format=torch.channels_last)
    source, target = (torch.empty(1 << 28, dtype=torch.uint8, device=clock.device)
                      for _ in range(2))
    host = torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True)
    side, rows = torch.cuda.Stream(), []
    works = {"linear": lambda: a @ b, "relu": lambda: torch.relu(maps),
             "conv2d": lambda: torch.nn.functional.conv2d(maps, weight, padding=1)}

    def beside(work, origin, many):
        """The clock's own wait at its begin would let the copies end first: they are given after
        it, by the first call of the work, and the work starts behind the clock's sleep."""
        given = []

        def call():
            if not given:
                given.append(True)
                with torch.cuda.stream(side):
                    for _ in range(many):
                        target.copy_(origin, non_blocking=True)
            work()

        us = clock.once_us(call, 10)
        clock.wait()
        return us

    for kind, work in works.items():
        # 400 device copies of 2^28 bytes, or 15 from the host, take over 60 ms at an H100's rates:
        # longer than the clock's 20 ms of sleep and ten calls.
        rows.append({"kind": kind, "precision": "fp16", "alone_us": clock.kernel_us([work], 10),
                     "beside_device_copies_us": beside(work, source, 400),
                     "beside_to_gpu_copies_us": beside(work, host, 15)})
    return rows


def measure_all(rows, measure, until):
    """Measures row by row; after `until` (a monotonic time in s) the others are left out."""
    for done, row in enumerate(rows):
        if time.monotonic() > until:
            print(f"time is up: {len(rows) - done} of {len(rows)} rows are left out", flush=True)
            return rows[:done]
        try:
            measure(row)
        except Exception as e:  # one row of hundreds: told in the file
            row["failed"] = str(e).splitlines()[0] if str(e) else type(e).__name__
        print(json.dumps(row), flush=True)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return rows


def options():
    o = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    o.add_argument("--out", required=True, help="the JSON file to write")
    o.add_argument("--parts", default=",".join(PARTS), help="some of " + ",".join(PARTS))
    o.add_argument("--seconds", type=float, default=540, help="no row begins after these")
    o.add_argument("--rounds", type=int, default=9, help="timings of which a median is taken")
    o.add_argument("--smoke", action="store_true", help="on the CPU, tiny, as a test")
    args = o.parse_args()
    unknown = [p for p in args.parts.split(",") if p not in PARTS]
    if unknown:
        o.error(f"no part '{unknown[0]}': there are {', '.join(PARTS)}")
    if args.rounds < 1:
        o.error("a median needs at least one round")
    if not args.smoke and not torch.cuda.is_available():
        o.error("PyTorch sees no CUDA device; --smoke tests the program on a CPU")
    return args


def main():
    args = options()
    device = torch.device("cpu" if args.smoke else "cuda")
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    clock = Clock(device, 2 if args.smoke else args.rounds)
    until = time.monotonic() + args.seconds
    work = {"launch": lambda: launch(clock),
            "copies": lambda: copies(clock, args.smoke),
            "overlap": lambda: overlap(clock),
            "kernels": lambda: measure_all(kernels.rows(args.smoke),
                                           lambda r: kernels.measure(r, clock), until),
            "steps": lambda: measure_all(networks.rows(args.smoke),
                                         lambda r: networks.measure(r, clock, args.smoke), until)}
    measured = {"format": "gx.gpu.measured.1", "conditions": conditions(device)}
    for part in args.parts.split(","):
        started = time.monotonic()
        try:
            measured[part] = work[part]()
        except Exception as e:  # the other parts are worth having
            print(f"{part} failed: {e}", flush=True)
        print(f"{part}: {time.monotonic() - started:.1f} s", flush=True)
        with open(args.out, "w") as file:
            json.dump(measured, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
