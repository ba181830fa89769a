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
expect("its sum", lines[8].split(), ["2.125", "7", "1.376", "648", "all"])
expect("no loss: products are not told apart", [(k["kind"], k["count"]) for k in step["kinds"]],
       [("products", 2), ("batch norm, forward", 3), ("input", 1), ("casts, copies and sums", 1)])
expect("a kind's sum", step["kinds"][1],
       {"kind": "batch norm, forward", "count": 3, "milliseconds": 0.219328,
        "dram_gigabytes": 0.514424, "gb_per_second": 2345.5})
expect("its last kind", lines[-1].split(maxsplit=4),
       ["0.246", "1", "0.293", "1189", "casts, copies and sums"])
expect("which of two trainings it was is not known",
       (step["composition"], step["gpus"], step["batch"]), (None, None, None))
expect("no line is long", [line for line in lines[1:] if len(line) > 120], [])

# ---- Kinds, by names and by the order of launches ----------------------------------------------
FPROP = "gemm::warp_specialized_kernel_gmma_utmaldg<fprop::Warp_specialized_gmma_fprop_bn_stat_" \
        "kernel_traits<xmma__5x_cudnn::Hopper_hgmma_fp32_traits<64, 64, 16, 0, 0>>>"
DGRAD = "sm90_xmma_dgrad_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_execute_kernel__5x_cudnn"
WGRAD = "sm90_xmma_wgrad_indexed_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_execute_"
REDUCE = "void cublasLt::splitKreduce_kernel<32, 16, int, float, __half>(T1)"
PREPARE = "void cask_plugin__5x_cudnn::init_device_workspace_kernel<wgrad_indexed::Params<x>>(T1)"
DECODE = "void gx::apply_kernel<gx::<unnamed>::Decode<gx::fp16>, const unsigned short, float>(T1)"
BACKWARD = [(f"void gx::<unnamed>::{name}_kernel<gx::fp16, 4>(long)", "batch norm, backward")
            for name in ("gradient_sums", "gradient_norms", "input_gradient")]
PART = {"F": "products, forward", "D": "products, input gradient", "W": "products, weight gradient",
        "N": "batch norm, forward", "C": "casts, copies and sums"}
STEP = [  # names and kinds, as ncu recorded them of a ResNet-50: the ends of a step, and two layers
    ("void gx::<unnamed>::pack_pixel_blocks_kernel<gx::fp16>(gx::SpaceToDepth)", "input"),
    ("sm80_xmma_fprop_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_kernel", PART["F"]),
    ("void gx::<unnamed>::moments_kernel<gx::fp16, 4>(long)", PART["N"]),
    ("gx::<unnamed>::train_norms_kernel(long)", PART["N"]),
    ("void gx::<unnamed>::normalise_rows_kernel<gx::fp16, 8>(long)", PART["N"]),
    ("cudnn_generated_resampleFwd_cutlass_sm80_knob_34_16x32x1_8x32x1_1_kernel0_0", "pools"),
    (FPROP, PART["F"]), ("gx::<unnamed>::summed_norms_kernel(long)", PART["N"]),
    ("void gx::<unnamed>::average_pool_kernel<gx::fp16, 8>(long)", "pools"),
    ("nvjet_sm90_hsh_56x64_64x14_4x2_h_bz_bias_TNN", PART["F"]),
    ("void gx::<unnamed>::loss_kernel<gx::fp16>(long)", "loss"),
    ("nvjet_sm90_hsh_64x64_64x13_2x1_v_bz_NNT", PART["D"]),
    (WGRAD + "kernel", PART["W"]), (DECODE, PART["C"]),
    ("cudnn_generated_reduction_cutlass_sm80_knob_37_32x64x1_1_kernel0_0", PART["C"]),
    *BACKWARD, (DGRAD, PART["D"]), (PREPARE, PART["W"]),  # a convolution, its parts named
    (WGRAD + "segment_k_on_kernel", PART["W"]), (WGRAD + "split_k_kernel", PART["W"]),
    (DECODE, PART["C"]),
    *BACKWARD, ("nvjet_sm90_hsh_64x512_64x2_1x2_h_bz_coopB_NNT", PART["D"]),  # not named
    (REDUCE, PART["D"]), ("nvjet_sm90_hsh_64x64_64x13_1x2_h_bz_splitK_NTT", PART["W"]),
    (REDUCE, PART["W"]), (DECODE, PART["C"]),
    *BACKWARD, ("cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16>(T1)", PART["D"]),
    ("void nhwcAddPaddingKernel<__half>(int)", PART["W"]),  # fp32 decodes no gradient
    ("nvjet_sm90_hsh_64x64_64x13_1x2_h_bz_NTT", PART["W"]),
    *BACKWARD, ("sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_kernel", PART["W"]),  # the first
    ("void gx::<unnamed>::gradient_from_blocks_kernel<gx::fp16>(long)", PART["C"]),
    ("gx::<unnamed>::count_kernel(long)", "optimizer"),
    ("void gx::<unnamed>::sgd_kernel<0, 0>(long)", "optimizer"),
    ("void gx::<unnamed>::quantize_kernel<3>(long)", "other"),
    ("Memset_of_a_later_cuDNN", "other")]
HEAD = RECORDED[RECORDED.index('"ID"'):].splitlines()[0]
LINE = "Trainer<ResNet50, MultiRing<4, fp16>, Warmup<Poly<2>>, Compute<fp16>>     1 x 256" \
       "        88 images/s"


def recorded(names):
    """What ncu prints of three steps of these kernels: kernel i takes i + 1 us and moves 1 kB."""
    rows = [f'"{at}","1","p","h","{name}","1","7","1","1","0","9.0","s","{metric}","{unit}","{n}"'
            for at, (i, name) in enumerate([*enumerate(names)] * 3 + [(0, names[0])])
            for metric, unit, n in (("gpu__time_duration.sum", "us", i + 1),
                                    ("dram__bytes.sum", "byte", 1000))]
    return "\n".join([LINE, HEAD, *rows]) + "\n"


def expected_kinds(step):
    sums = {}
    for i, (_, kind) in enumerate(step):
        one = sums.setdefault(kind, [0, 0])
        sums[kind] = [one[0] + 1, one[1] + i + 1]
    return {kind: (count, us / 1000) for kind, (count, us) in sums.items()}


def kinds_in(made):
    return {row["kind"]: (row["count"], row["milliseconds"]) for row in made["kinds"]}


made = run(recorded([name for name, _ in STEP]))[1]
expect("kinds", kinds_in(made), expected_kinds(STEP))
expect("what was trained", (made["composition"], made["gpus"], made["batch"]),
       ("Trainer<ResNet50, MultiRing<4, fp16>, Warmup<Poly<2>>, Compute<fp16>>", 1, 256))
unnamed = [name.replace("wgrad", "grad").replace("dgrad", "grad") for name, _ in STEP]
expect("order alone", kinds_in(run(recorded(unnamed))[1]), expected_kinds(STEP))
at = STEP.index((DGRAD, PART["D"]))
twice = [*STEP[:at], STEP[at], *STEP[at:]]  # an input gradient of two kernels: names tell
expect("names before order", kinds_in(run(recorded([name for name, _ in twice]))[1]),
       expected_kinds(twice))

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
        "hold 2 begins of a step (pack_pixels_kernel or pack_pixel_blocks_kernel): expected 3")
refused("a unit", RECORDED.replace('"byte"', '"sector"'), "'sector' is not a known unit")

print("FAILED" if failures else "kernel_times.py keeps its promises")
sys.exit(bool(failures))
