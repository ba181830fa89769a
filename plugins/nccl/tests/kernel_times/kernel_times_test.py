#!/usr/bin/env python3
"""kernel_times_test.py KERNEL_TIMES CSV: the profile's table, of a recorded CSV and of bad ones."""
import json, pathlib, subprocess, sys, tempfile

PROGRAM, RECORDED = sys.argv[1], pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
place = tempfile.TemporaryDirectory()
folder = pathlib.Path(place.name)
failures = []


def expect(what, found, expected):
    if found != expected:
        failures.append(what)
        print(f"FAILED: {what}\n    found    {found!r:.600}\n    expected {expected!r:.600}")


def run(text, status=0):
    """Its output, and its JSON where it has written one."""
    made = folder / "made.json"
    made.unlink(missing_ok=True)
    (folder / "ncu.csv").write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, "-B", PROGRAM, folder / "ncu.csv", made],
                          capture_output=True, text=True)
    expect(f"status; {done.stderr}", done.returncode, status)
    return done.stdout + done.stderr, json.loads(made.read_text()) if made.exists() else None


def refused(what, text, sentence):
    said, made = run(text, 1)
    expect(what, sentence in said or said, True)
    expect(f"{what}: no JSON", made, None)


# ---- What ncu recorded: three steps of seven kernels, and the first kernel of a fourth ----------
said, step = run(RECORDED)
expect("the last whole step", (step["step"], step["kernels_of_step"]), (3, 7))
expect("its sums", (step["milliseconds"], step["dram_gigabytes"], step["gb_per_second"]),
       (2.1248, 1.376441, 647.8))
expect("by time", [k["name"] for k in step["kernels"]],
       ["sm80_xmma_fprop_implicit_gemm_indexed_wo_smem_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize"
        "128x32x16_stage1_warpsize4x1x1_g1_tensor16x8x16_aligna2_alignc8_execute...",
        "gx::apply_kernel<gx::Accumulate<gx::fp16>, const unsigned short, unsigned short>",
        "gx::moments_kernel<gx::fp16, 8>", "gx::pack_pixels_kernel<gx::fp16, 1>",
        "gx::train_norms_kernel",
        "cublasLt::splitKreduce_kernel<32, 16, int, float, __half, float, __half, 0, float, "
        "__half, __half, 1, 0, 0, 0>"])
expect("two launches of one kernel", step["kernels"][2],
       {"name": "gx::moments_kernel<gx::fp16, 8>", "count": 2, "milliseconds": 0.199968,
        "dram_gigabytes": 0.513886, "gb_per_second": 2569.8})
expect("what disturbs it", "runs each kernel alone, with caches flushed" in step["note"], True)
lines = said.splitlines()
expect("its first row", lines[2].split()[:4], ["1.478", "1", "0.465", "315"])
expect("its sum", lines[-1].split(), ["2.125", "7", "1.376", "648", "all"])
expect("no line is long", [line for line in lines[1:] if len(line) > 120], [])

# ---- Other spellings --------------------------------------------------------------------------
scaled = RECORDED.replace('"ns","1,477,696"', '"us","1,477.696"')
expect("it has that time", scaled != RECORDED, True)
expect("other units", run(scaled)[1], step)
anonymous = RECORDED.replace("<unnamed>", "(anonymous namespace)")
expect("unnamed namespaces of other compilers", run(anonymous)[1], step)
expect("lines behind the table", run(RECORDED + "==WARNING== no\n")[1], step)

# ---- Refused ------------------------------------------------------------------------------------
refused("no kernels", "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no permission\n",
        "ncu recorded no kernel; ==ERROR== ERR_NVGPUCTRPERM - no permission")
refused("nothing", "", "ncu recorded no kernel")
refused("one whole step", RECORDED[:RECORDED.index('"1220"')],
        "hold 2 begins of a step (pack_pixels_kernel): expected 3")
refused("a unit", RECORDED.replace('"byte"', '"sector"'), "'sector' is not a known unit")

print("FAILED" if failures else "kernel_times.py keeps its promises")
sys.exit(bool(failures))
