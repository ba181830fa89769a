#!/usr/bin/env bash
# cuda_commands_test.sh ROOT: the launcher's commands for GPUs, on stand-ins: a package index that
# is a folder of tiny wheels, and tools that print what the launcher reads. No network, no GPU.
set -uo pipefail
root=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place" || exit 1
. "$root/tests/launcher/expect.sh"
if ! python3 -m pip --version >/dev/null 2>&1; then
    echo "skipped: pip for python3 is missing"
    exit 0
fi

mkdir -p tree/plugins/cuda tree/plugins/nccl/gpu index
cp "$root/gx" tree
cp "$root/plugins/cuda/commands.sh" tree/plugins/cuda
cp "$root"/plugins/nccl/gpu/*.py tree/plugins/nccl/gpu
export PIP_NO_INDEX=1 PIP_FIND_LINKS=$place/index PIP_CONFIG_FILE=/dev/null
gx() { "$place/tree/gx" "$@"; }

cat >wheel.py <<'PY'
# wheel.py PACKAGE==VERSION [FILE...]: a wheel of files with one line each, in index/.
import sys, zipfile
name, version = sys.argv[1].split("==")
base = name.replace("-", "_")
info = f"{base}-{version}.dist-info"
with zipfile.ZipFile(f"index/{base}-{version}-py3-none-any.whl", "w") as files:
    files.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    files.writestr(f"{info}/WHEEL",
                   "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    files.writestr(f"{info}/RECORD", "")
    for file in sys.argv[2:]:
        files.writestr(file, f"// {file}\n")
PY
wheel() { python3 wheel.py "$@"; }
some_wheels() {
    rm -f index/*
    wheel nvidia-cuda-runtime==13.0.96 nvidia/cu13/include/cuda_runtime_api.h nvidia/cu13/lib/big.so
    wheel nvidia-cuda-crt==13.0.88 nvidia/cu13/include/crt/host_config.h
    wheel nvidia-cuda-cccl==13.0.85 nvidia/cu13/include/nv/target nvidia/cu13/include/cccl/cub.h
    wheel nvidia-cudnn-cu13==9.19.0.56 nvidia/cudnn/include/cudnn.h nvidia/cudnn/lib/libcudnn.so.9
}
headers=tree/build/cuda-headers

# ---- cuda-headers -------------------------------------------------------------------------------
expect "without a network" 2 "nvidia-nccl-cu13 2.28.9 could not be fetched: is there a network" \
    gx cuda-headers
[[ ! -e $headers && ! -e $headers.part ]] || fail "nothing is left of a fetch that failed"
some_wheels
wheel nvidia-nccl-cu13==2.27.7 nvidia/nccl/include/nccl.h
expect "another version" 2 "nvidia-nccl-cu13 2.28.9 is not offered by the package index that pip \
is configured for, which offers 2.27.7" gx cuda-headers
[[ ! -e $headers ]] || fail "headers are complete or not there"
wheel nvidia-nccl-cu13==2.28.9 nvidia/nccl/lib/libnccl.so.2
expect "a wheel without headers" 2 \
    "nvidia-nccl-cu13 2.28.9: the wheel holds nothing below include/" gx cuda-headers
wheel nvidia-nccl-cu13==2.28.9 nvidia/nccl/include/other.h
expect "a wheel without the header" 2 "the wheels hold no nccl.h" gx cuda-headers
[[ ! -e $headers ]] || fail "headers without nccl.h are not kept"
wheel nvidia-nccl-cu13==2.28.9 nvidia/nccl/include/nccl.h
expect "headers" 0 "where ./gx test finds them" gx cuda-headers --json "$place/headers.json"
expect "its JSON" 0 "2.28.9" valid_json headers.json "packages 0 version"
(cd "$headers" && find . -type f | sort) >kept
expect "headers alone are kept" 0 "./cuda/include/crt/host_config.h
./cuda/include/cuda_runtime_api.h
./cuda/include/nv/target
./cudnn/include/cudnn.h
./nccl/include/nccl.h
./versions" cat kept
[[ $(wc -l <kept) == 6 ]] || fail "and nothing else: $(cat kept)"
rm index/*
expect "a second call fetches nothing" 0 "where ./gx test finds them" gx cuda-headers
sed -i 's/2.28.9/2.27.7/' "$headers/versions"
expect "headers of another version are fetched again" 2 "nvidia-nccl-cu13 2.28.9" gx cuda-headers
[[ -f $headers/nccl/include/nccl.h ]] || fail "they stay until the others are there"
: >index/nvidia_nccl_cu13-2.28.9-py3-none-any.whl
expect "a damaged wheel" 2 "nvidia-nccl-cu13 2.28.9: the wheel is damaged; call again" \
    gx cuda-headers
expect "an option that is not there" 2 "Did you mean '--json'?" gx cuda-headers --jsn

mkdir tools
printf '#!/bin/bash\necho "Filesystem 1024-blocks Used Available"; echo "x 9 9 200000"\n' >tools/df
chmod +x tools/df
rm -r "$headers"
expect "a full disk" 2 "has 204 MB left, and 1500 MB are needed" env PATH="$place/tools:$PATH" \
    "$place/tree/gx" cuda-headers

mkdir other
cp -r tree/gx tree/plugins other
for kind in file link; do
    if [[ $kind == file ]]; then touch other/build; else ln -sf nowhere other/build; fi
    for words in cuda-headers "cuda-plans h100"; do
        expect "${words%% *} where build is a $kind" 2 "the folder '$place/other/build' can't be \
made: remove the file or the dead link of that name" other/gx $words
    done
done

# An interrupt while pip fetches the second wheel, with a second launcher beside.
cat >tools/python3 <<'TOOL'
#!/bin/bash
[[ "$*" != *"download"*"$HANG"* ]] || { echo $$ >"$HUNG"; exec sleep 1000; }
exec /usr/bin/env PATH="${PATH#*:}" python3 "$@"
TOOL
chmod +x tools/python3
rm tools/df
some_wheels
wheel nvidia-nccl-cu13==2.28.9 nvidia/nccl/include/nccl.h
mkfifo hung
for to in "INT -" "INT " "TERM "; do
    set -m
    env PATH="$place/tools:$PATH" HANG=nvidia-cuda-runtime HUNG="$place/hung" tree/gx \
        cuda-headers >said 2>&1 </dev/null &
    launcher=$!
    set +m
    read -r hung <hung
    expect "two at once" 2 "another ./gx is fetching into build/cuda-headers: wait for it" \
        gx cuda-headers
    kill "-${to% *}" -- "${to#* }$launcher"
    wait "$launcher" 2>/dev/null
    expect "a fetch is interrupted" 0 \
        "gx: interrupted; call again, fetched wheels are kept" cat said
    ! kill -0 "$hung" 2>/dev/null || { fail "pip goes on after $to"; kill "$hung"; }
    rm -f index/nvidia_nccl*
done
[[ ! -e $headers ]] || fail "headers are complete or not there"
expect "the next call goes on" 0 "where ./gx test finds them" gx cuda-headers
(cd "$headers" && find . -type f | sort) >kept
[[ $(wc -l <kept) == 6 ]] || fail "it holds all: $(<kept)"
rm tools/python3 hung


# ---- cuda-plans, on stand-ins for the tools -----------------------------------------------------
cat >tools/tool <<'TOOL'
#!/bin/bash
# What the tools print and make, as far as the launcher reads it, and the programs that they build.
# FAIL names one that fails, FAIL_LATE one that fails when it has written its figures, LATE a test
# or build that takes too long, SKIP a test that SAYS so with SKIP_STATUS, HANG one that says in the
# pipe HUNG who it is, and never ends.
name=${0##*/}
echo "$name $* ${LD_LIBRARY_PATH:-}" >>"$TOOLS_LOG"
[[ $name != "${FAIL:-}" ]] || exit 3
[[ $name != "${HANG:-}" ]] || { echo $$ >"$HUNG"; exec sleep 1000; }
[[ $name != "${SKIP:-}" ]] || { echo "${SAYS-skipped: no GPU (x)}"; exit "${SKIP_STATUS:-0}"; }
case $name in
dpkg-query) shift 3; for package in "$@"; do echo "installed:$package"; done ;;
cmake)
    [[ $* != *"-P "* ]] || exec /usr/bin/cmake "$@"
    while (($# > 1)) && [[ $1 != -B ]]; do shift; done
    mkdir -p "$2/plugins"
    printf '#!/bin/bash\n[[ -z ${REFUSE:-} ]] || exit 2\n
        [[ -z ${CUT:-} ]] || { echo "{\\"gpu\\": "; exit 0; }
        [[ -z ${HANG_PLANS:-} ]] || { echo $$ >"$HUNG"; exec sleep 1000; }
        echo "{\\"gpu\\": \\"$1\\"}"\n' \
        >"$2/gx_cuda_plans"
    chmod +x "$2/gx_cuda_plans"
    for program in cuda.testing.{,cudnn.,nccl.}contract.real nccl.gpu.reductions \
        cuda.gpu.{kernels,optimizers,pooling,networks,virtual_ranks}; do
        cp "$0" "$2/plugins/plugins.$program"
    done
    for program in all_reduce_speed train_speed; do cp "$0" "$2/gx_nccl_$program"; done ;;
timeout) [[ -z ${HANG:-}${HANG_PLANS:-} ]] || exec /usr/bin/timeout "$@"
    [[ -z ${LATE:-} || "$*" != *$LATE* ]] || exit 124
    exec "${@:3}" ;;
plugins.*) echo "[  SKIPPED ] 1 test"; echo "[  PASSED  ] 7 tests." ;;
gx_nccl_*) [[ $1 != --json ]] || echo "{\"program\": \"$name\"}" >"$2"
    [[ $name != "${FAIL_LATE:-}" ]] || exit 4 ;;
nvidia-smi) echo "${GPU:-NVIDIA H100 80GB HBM3, 580.65, 9.0}" ;;
nvcc) [[ $1 != --list-gpu-arch ]] || printf 'compute_75\ncompute_90\n'
    [[ $1 != --version ]] || echo "Build cuda_13.0" ;;
compute-sanitizer) [[ $* == *"--error-exitcode 9"* ]] ;;
ncu) echo '"ID","Kernel Name"' ;;
strip) cp "$3" "$2" ;;
ldd)
    printf '\tlinux-vdso.so.1 (0x01)\n\tlibc.so.6 => /lib/libc.so.6 (0x02)\n'
    [[ -n ${NO_LIBZ:-} ]] && printf '\tlibz.so.1 => not found\n' ||
        printf '\tlibz.so.1 => %s/libz.so.1 (0x03)\n' "$CUDA_PATH"
    [[ $1 != *contract.real ]] || printf '\tlibcudart.so.13 => /x/libcudart.so.13 (0x04)\n'
    [[ $1 != *.cudnn.* && $1 != *.gpu.[kn]* ]] || printf '\tlibcudnn.so.9 => not found\n'
    [[ $1 != *nccl* ]] || printf '\tlibnccl.so.2 => /x/libnccl.so.2 (0x05)\n' ;;
python)
    case "$*" in
    *nvidia*) [[ -z ${WHEELS:-} ]] || printf '%s\n' "$WHEELS"/*/lib ;;
    *sys.version*) echo Python 3.9 ;;
    -c*) echo PyTorch 2.9 ;;
    *kernel_times.py*) grep -q '^"ID"' "$2" && echo '{"kernels": 609}' >"$3" && echo "a table" ;;
    *) echo '{"torch": "2.9"}' >"$3" ;;
    esac ;;
esac
TOOL
chmod +x tools/tool
for tool in dpkg-query cmake ninja ctest timeout nvidia-smi compute-sanitizer ncu strip ldd \
    python; do
    ln -s tool "tools/$tool"
done
mkdir -p cuda/bin cuda/lib64 plans/lib plans/include
cp tools/tool cuda/bin/nvcc
touch cuda/lib64/libcudart.so.13 cuda/lib64/libnccl.so.2 cuda/nccl.h
touch plans/include/cudnn.h plans/include/cuda_runtime_api.h plans/lib/libcudart.so.12
export TOOLS_LOG=$place/tools.log CUDA_PATH=$place/cuda GX_PYTHON=/bin/false
stand_in() { env PATH="$place/tools:/usr/bin:/bin" "$place/tree/gx" "$@"; }
untimed() {  # a busy machine takes longer
    "$@" 2>&1 | sed -E 's/ +[0-9]+ s  /  /'
    return "${PIPESTATUS[0]}"
}
plans=tree/reference/cudnn/v100.json

expect "a folder of libraries that is not there" 2 "--v100: '$place/nowhere' is not a folder" \
    stand_in cuda-plans v100 --v100 nowhere
expect "an unknown GPU" 2 "unknown GPU 'a100'" stand_in cuda-plans a100
expect "a misspelt option" 2 "Did you mean '--v100'?" stand_in cuda-plans --v10 plans
expect "an option without its value" 2 "--h100 wants a folder" stand_in cuda-plans --h100
expect "a folder without cuDNN" 2 "there is no libcudnn_graph.so.9" \
    stand_in cuda-plans v100 --v100 plans
touch plans/lib/libcudnn_graph.so.9 plans/lib/libcudnn.so.9 plans/lib/libnvrtc.so.12
expect "a folder without cuBLAS" 2 "there is no libcublasLt.so.12 or .13" \
    stand_in cuda-plans v100 --v100 plans
touch plans/lib/libcublasLt.so.12
expect "a folder selects its GPU" 2 "--h100: below '$place/plans/lib'" \
    stand_in cuda-plans --h100 plans/lib
expect "a folder for another GPU" 2 "--v100: v100 is not among the GPUs asked for" \
    stand_in cuda-plans h100 --v100 plans
expect "a GPU given twice" 2 "h100: this GPU is given twice" stand_in cuda-plans h100 h100
expect "plans" 0 "wrote reference/cudnn/v100.json" \
    stand_in cuda-plans v100 --v100 plans --json "$place/plans.json"
expect "their JSON" 0 "v100" valid_json "$plans" gpu
expect "the command's JSON" 0 "reference/cudnn/v100.json" valid_json plans.json "files 0"
expect "cuDNN is the one below the folder" 0 "GX_CUDNN_LIBRARY=$place/plans/lib/libcudnn.so.9" \
    cat tools.log
expect "a library that refuses" 2 "cuDNN gave no plans for the V100" \
    env REFUSE=1 PATH="$place/tools:$PATH" "$place/tree/gx" cuda-plans v100 --v100 plans
expect "plans that are cut off" 2 "is no whole JSON" \
    env CUT=1 PATH="$place/tools:$PATH" "$place/tree/gx" cuda-plans v100 --v100 plans
mkfifo hung
for signal in INT TERM; do
    set -m
    env PATH="$place/tools:$PATH" HANG_PLANS=1 HUNG="$place/hung" tree/gx cuda-plans --v100 plans \
        >said 2>&1 </dev/null &
    launcher=$!
    set +m
    read -r planner <hung
    kill "-$signal" "$launcher"
    wait "$launcher" 2>/dev/null
    expect "$signal while cuDNN is asked" 0 "interrupted; reference/cudnn/v100.json stays" cat said
    timeout 20 tail --pid="$planner" -s 0.1 -f /dev/null ||  # it may end behind the launcher
        { fail "$signal: cuDNN is still asked"; kill "$planner"; }
done
rm hung
expect "the file stays as it was" 0 "v100" valid_json "$plans" gpu
[[ $(ls tree/reference/cudnn) == v100.json ]] || fail "beside it: $(ls tree/reference/cudnn)"

# ---- gpu ----------------------------------------------------------------------------------------
gpu() { env PATH="$place/tools:/usr/bin:/bin" "$@" "$place/tree/gx" gpu --json "$place/gpu.json"; }
measured=tree/reference/measured/nvidia-h100-80gb-hbm3.json
expect "the check" 0 "1 x NVIDIA H100 80GB HBM3, driver 580.65, sm_90" stand_in gpu --check
for option in --check=1 --again=1 --yes=1; do
    expect "a value for $option" 2 "${option%=1} takes no value" stand_in gpu "$option"
done
expect "it names what is left out" 0 "cudnn                     missing (optional)" \
    stand_in gpu --check
expect "the check without a GPU" 1 "GPU                       missing (needed): nvidia-smi lists" \
    env FAIL=nvidia-smi PATH="$place/tools:$PATH" "$place/tree/gx" gpu --check \
    --json "$place/check.json"
expect "its JSON" 0 "OFF" valid_json check.json complete
expect "no GPU" 2 "something needed is missing, see above; nothing was run" gpu FAIL=nvidia-smi
expect "its JSON, too" 0 "nvidia-smi lists none" valid_json gpu.json "checks 0 enables"
expect "a toolkit that is not there" 2 "CUDA_PATH=/nowhere is no folder" gpu CUDA_PATH=/nowhere
expect "a CUDA 12 toolkit that is not there" 2 "GX_CUDA12_ROOT=/nowhere is no folder" \
    gpu GX_CUDA12_ROOT=/nowhere GPU="Tesla V100-SXM2-16GB, 535.1, 7.0"
expect "a driver that prints an error" 2 "nothing was run" gpu GPU="No devices were found"
[[ ! -e $measured ]] || fail "nothing is written without a GPU"
expect "a V100 and a toolkit that dropped it" 2 "for sm_70 clang++-19 and GX_CUDA12_ROOT" \
    gpu GX_CUDA12_ROOT= \
    GPU="Tesla V100-SXM2-16GB, 535.1, 7.0"
printf '#!/bin/sh\necho compute_75; echo compute_90\n' >nvcc
chmod +x nvcc
architectures() {  # architectures LIST [OPTION...]: what CMake says of them
    cmake -D "CMAKE_CUDA_ARCHITECTURES=$1" "${@:2}" \
        -P "$root/plugins/cuda/gpu/check_architectures.cmake" 2>&1 | tr -s ' \n' ' '
    return "${PIPESTATUS[0]}"
}
expect "the same, given to CMake" 1 "does not compile for sm_70, but for 75, 90. Give other" \
    architectures '75;70' -D CMAKE_CUDA_COMPILER="$place/nvcc"
expect "of the nvcc in PATH" 1 "does not compile for sm_70" \
    env -u CUDACXX PATH="$place:$PATH" bash -c "$(declare -f architectures); root=$root; \
        architectures 70"
expect "of another compiler" 1 "does not compile for sm_70" \
    env CUDACXX="$place/nvcc -ccbin g++" \
        bash -c "$(declare -f architectures); root=$root; architectures 70"
expect "architectures that it has" 0 "" \
    architectures '75;90-real;native' -D CMAKE_CUDA_COMPILER="$place/nvcc"
expect "a build that takes too long" 1 "build      timeout " gpu LATE=ninja
expect "what follows it is left out" 0 "the build has not passed" valid_json gpu.json \
    "stages 1 reason"
expect "a build that fails" 1 "build      FAILED " gpu FAIL=ninja
expect "its log" 0 "see build/logs/configure-gpu.log and build/logs/build-gpu.log" \
    valid_json gpu.json "stages 0 reason"
expect "a stage that fails" 1 "contract   FAILED " gpu FAIL=plugins.cuda.testing.contract.real
expect "its log" 0 "status 3; see build/logs/gpu-contract.log" valid_json gpu.json \
    "stages 1 reason"
expect "its other programs run" 0 "nccl.contract.real" cat tree/build/logs/gpu-contract.log
test=plugins.cuda.testing.nccl.contract.real
expect "a stage that is skipped is no success" 1 "contract   skipped   " \
    gpu SKIP=$test
expect "what is skipped" 0 "skipped: $test" valid_json gpu.json \
    "stages 1 reason"
expect "a status that says so" 1 "contract   skipped   " \
    gpu SKIP=$test SAYS='' SKIP_STATUS=77
expect "skipped tests alone" 1 "contract   skipped   " \
    gpu SKIP=$test SAYS='[  PASSED  ] 0 tests.'
expect "a test that takes too long" 1 "contract   timeout   " gpu LATE=$test
: >tools.log
expect "all stages" 0 "synccheck  passed " stand_in gpu --again
expect "it compiles for the GPU" 0 "CMAKE_CUDA_ARCHITECTURES=90" grep cmake tools.log
expect "optimised" 0 "CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2" grep cmake tools.log
expect "it builds what is there" 0 "plugins.nccl.gpu.reductions" grep ninja tools.log
expect "and not cuDNN's contract" 1 "" grep -e "cudnn.contract.real *$" tools.log
expect "the sanitizer's tools" 0 "--tool racecheck --error-exitcode 9" cat tools.log
expect "what is written" 0 "580.65" valid_json "$measured" driver
expect "its stages" 0 "passed" valid_json "$measured" "stages 5 outcome"
expect "what a stage measures" 0 "gx_nccl_all_reduce_speed" valid_json "$measured" \
    "reductions program"
expect "a stage without a library" 0 "cudnn is missing" valid_json "$measured" "stages 7 reason"
expect "it measures nothing" 0 '"training": null' cat "$measured"
expect "a profile without it" 0 "cudnn is missing" valid_json "$measured" "stages 8 reason"
expect "PyTorch is missing" 0 "torch is missing" valid_json "$measured" "stages 9 reason"
: >tools.log
expect "a second call goes on" 0 "before, on this tree" gpu GX=1
expect "it runs nothing" 1 "" grep -E "^(plugins|gx_|ninja)" tools.log
sed -i '2s/.*/77/' tree/build/gpu/stages/contract
expect "with its seconds" 0 "contract   passed        77 s" gpu GX=1
: >tools.log
touch cuda/cudnn.h cuda/lib64/libcudnn.so.9
expect "cuDNN has come" 0 "passed  " gpu GX=1
expect "its contract is built" 0 "cudnn.contract.real" grep ^ninja tools.log
expect "networks run" 0 "networks" grep ^plugins tools.log
expect "and training" 0 "gx_nccl_train_speed" valid_json "$measured" "training program"
expect "python is missing" 0 "python is missing" valid_json "$measured" "stages 8 reason"
: >tools.log
expect "PyTorch has come" 0 "a table" gpu GX_PYTHON="$place/tools/python"
expect "its figures" 0 "2.9" valid_json "$measured" "pytorch torch"
expect "a profile" 0 "609" valid_json "$measured" "profile kernels"
expect "of few steps on one GPU" 0 "gx_nccl_train_speed --gpus 1 --compute fp16 --steps 4" \
    grep "^ncu --graph-profiling node" tools.log
expect "a program that fails" 1 "reductions FAILED " \
    gpu FAIL=gx_nccl_all_reduce_speed GX_PYTHON="$place/tools/python2"
expect "it measures nothing" 0 '"reductions": null' cat "$measured"
expect "one that fails behind its first figures" 1 "reductions FAILED " \
    gpu FAIL_LATE=gx_nccl_all_reduce_speed
expect "they are kept" 0 "gx_nccl_all_reduce_speed" valid_json "$measured" "reductions program"
rm cuda/cudnn.h
expect "unless asked" 0 "passed " stand_in gpu --again
expect "one stage" 0 "stage kernels: at most" stand_in gpu --again --stages kernels,nccl
expect "and no other" 0 "memcheck   passed  before, on this tree" \
    untimed stand_in gpu --again --stages kernels
expect "a stage that there is not" 2 "unknown stage 'traning'. Did you mean 'training'?" \
    stand_in gpu --stages kernels,traning
expect "then it runs all" 0 "plugins" grep ^plugins tools.log

# interrupt SIGNAL TO NAME TOOL ARGUMENT...: SIGNAL while TOOL hangs, to the launcher alone or, as
# the terminal does, to its group; `said` is what it prints then. The tool is ended, too.
mkfifo hung
interrupt() {
    local signal=$1 to=$2 name=$3 tool=$4 launcher hung status=0
    shift 4
    set -m
    env PATH="$place/tools:/usr/bin:/bin" HANG="$tool" HUNG="$place/hung" "$place/tree/gx" "$@" \
        >said 2>&1 </dev/null &
    launcher=$!
    set +m
    read -r hung <hung
    [[ $to == launcher ]] && kill "-$signal" "$launcher" || kill "-$signal" -- "-$launcher"
    wait "$launcher" 2>/dev/null || status=$?
    ((status == 130)) || fail "$name: status $status: $(<said)"
    for _ in {1..50}; do kill -0 "$hung" 2>/dev/null || return 0; sleep 0.1; done
    fail "$name: $tool goes on"
    kill "$hung"
}
rm "$measured"
for signal in "INT group" "INT launcher" "TERM launcher"; do
    for tool in "cmake build" "ninja build" "plugins.cuda.testing.contract.real contract" \
        "compute-sanitizer memcheck"; do
        interrupt $signal "$signal to ${tool% *}" "${tool% *}" gpu --again
        expect "$signal in stage ${tool#* }" 0 "gx: interrupted in stage ${tool#* }; what passed \
is kept: call ./gx gpu again" cat said
        [[ ! -e $measured ]] || fail "$signal to $tool: an interrupt is no measurement"
    done
done
: >tools.log
expect "after an interrupt" 0 "before, on this tree" gpu GX=1
expect "what passed is kept" 1 "" grep ^plugins tools.log
rm tools/compute-sanitizer
expect "a missing tool" 0 "compute-sanitizer is missing: part of the CUDA toolkit" gpu GX=1
echo "// changed" >tree/file.cpp
: >tools.log
expect "a changed tree" 0 "passed " gpu GX=1
expect "it is tested anew" 0 "plugins" grep ^plugins tools.log

# ---- Packed programs ----------------------------------------------------------------------------
on_node() {  # without what builds: a call of one of these fails
    env PATH="$place/node:/usr/bin:/bin" "$@" "$place/tree/gx" gpu --programs packed \
        --json "$place/gpu.json"
}
mkdir -p node/bin wheels/{cudnn,nccl,cu13}/lib other/{cudnn,nccl,cuda_runtime}/lib
cp tools/tool node
for tool in timeout nvidia-smi compute-sanitizer ncu python; do ln -s tool "node/$tool"; done
for tool in cmake ninja dpkg-query apt-get nvcc ldd strip; do ln -s /bin/false "node/$tool"; done
cp tools/tool tools/compute-sanitizer
touch {wheels,other}/cudnn/lib/libcudnn.so.9 {wheels,other}/nccl/lib/libnccl.so.2
touch wheels/cu13/lib/libcudart.so.13 other/cuda_runtime/lib/libcudart.so.12 cuda/libz.so.1

expect "a pack without cuDNN" 2 "something needed is missing" stand_in gpu --pack packed
touch cuda/cudnn.h cuda/lib64/libcudnn.so.9
: >tools.log
expect "a pack" 0 "packed 11 programs for sm_75 sm_90" stand_in gpu --pack packed
expect "for both architectures" 0 "CMAKE_CUDA_ARCHITECTURES=75;90" grep ^cmake tools.log
expect "no GPU is asked for" 1 "" grep -E "^(nvidia-smi|plugins)" tools.log
expect "a pack for one" 0 "packed 11 programs for sm_90, tree " env FAIL=nvidia-smi \
    PATH="$place/tools:$PATH" tree/gx gpu --pack packed --architecture 90 --json "$place/pack.json"
expect "its JSON" 0 "libz.so.1" valid_json pack.json "libraries 0"
[[ $(ls packed/lib) == libz.so.1 ]] || fail "neither CUDA's nor the system's: $(ls packed/lib)"
expect "what a program loads" 0 \
    "program plugins.cuda.testing.nccl.contract.real libcudart.so.13 libnccl.so.2" cat packed/id
tree=$(sed -n 's/^tree //p' packed/id)

: >tools.log
expect "packed programs" 0 "programs   passed  packed, tree $tree" untimed on_node \
    GX_PYTHON="$place/node/python" WHEELS="$place/wheels"
expect "nothing is built" 1 "" grep -E "^(cmake|ninja|dpkg|nvcc)" tools.log
expect "libraries of wheels are preferred" 0 "$place/packed/lib:$place/wheels/" \
    grep ^plugins.cuda.gpu.networks tools.log
expect "with what cuDNN loads" 0 "$place/wheels/cu13/lib:$place/cuda/lib64" \
    grep ^plugins.cuda.gpu.networks tools.log
for tool in ncu compute-sanitizer; do
    expect "and for $tool" 0 "$place/packed/lib:" grep "^$tool" tools.log
done
expect "not for PyTorch" 0 "packed/pytorch_peer.py 256 build/gpu/pytorch.json " \
    grep "^python $place" tools.log
expect "none of the pack" 1 "" grep "^python .*packed/lib" tools.log
expect "its compiler" 0 "Build cuda_13.0" valid_json "$measured" cuda_compiler
expect "its profile" 0 "609" valid_json "$measured" "profile kernels"
expect "they are not run again" 0 "before, on this tree" on_node GX_PYTHON="$place/node/python" \
    WHEELS="$place/wheels"
: >tools.log
expect "wheels of another CUDA" 0 "cudnn                     $place/cuda/lib64/libcudnn.so.9" \
    on_node GX_PYTHON="$place/node/python" WHEELS="$place/other"
cp packed/id id
sed -i 's/libcudnn.so.9/libcudnn.so.99/' packed/id
expect "a library of another version" 0 \
    "missing (optional): libcudnn.so.99 for 3 programs" on_node GX=1
expect "its stages" 0 "cudnn is missing" valid_json gpu.json "stages 3 reason"
expect "others are run" 0 "passed" valid_json gpu.json "stages 5 outcome"

cp id packed/id
expect "packed programs without a GPU" 2 "GPU                       missing (needed): nvidia-smi" \
    on_node FAIL=nvidia-smi
expect "a GPU that is older" 2 "those for sm_90 do not run on sm_75: ./gx gpu --pack FOLDER \
--architecture 75" on_node GPU="NVIDIA T4, 580.65, 7.5"
expect "one that is newer" 0 "sm_90" on_node GPU="NVIDIA B200, 580.65, 10.0"
rm packed/plugins.cuda.gpu.kernels
expect "a program is missing" 2 \
    "'$place/packed' holds no program 'plugins.cuda.gpu.kernels': pack the programs anew" \
    on_node GX=1
rm packed/kernel_times.py
cp packed/plugins.cuda.gpu.networks packed/plugins.cuda.gpu.kernels
expect "a script is missing" 2 "holds no 'kernel_times.py': pack the programs anew" on_node GX=1
touch packed/kernel_times.py
sed -i '/^architectures/d' packed/id
expect "an id that is cut" 2 "packed/id' names no tree or no architectures" on_node GX=1
rm packed/id
expect "no id" 2 "'$place/packed' has no file 'id', which ./gx gpu --pack writes last" on_node GX=1
expect "a build that fails leaves no pack" 2 "nothing was packed" \
    env FAIL=ninja PATH="$place/tools:$PATH" tree/gx gpu --pack packed
expect "a library that is not found" 2 "its library libz.so.1 is not found" \
    env NO_LIBZ=1 PATH="$place/tools:$PATH" tree/gx gpu --pack packed
[[ ! -e packed/id ]] || fail "a pack that is not complete has an id"
touch file
expect "no folder" 2 "'$place/file' is not a folder" stand_in gpu --programs file
expect "a folder that can't be made" 2 "the folder '$place/file/pack' can't be made or written" \
    stand_in gpu --pack file/pack
expect "both" 2 "choose one: --pack builds programs for another machine, --programs runs them" \
    stand_in gpu --pack packed --programs packed
expect "an architecture for nothing" 2 "--architecture is for --pack" \
    stand_in gpu --architecture 90
expect "a pack that runs" 2 "--pack runs none" stand_in gpu --pack packed --again
expect "stages between blanks" 2 "'kernels nccl' is no list of stages" \
    stand_in gpu --stages "kernels nccl"
expect "stages by a pattern" 2 "'ker.*' is no list of stages" stand_in gpu --stages 'ker.*'
expect "a pack of stages" 2 "--pack runs none" stand_in gpu --pack packed --stages kernels
expect "an architecture that is none" 2 "'sm_90' is no compute capability without its point" \
    stand_in gpu --pack packed --architecture sm_90
expect "one that nvcc lacks" 2 "compiles nothing for sm_42" \
    stand_in gpu --pack packed --architecture 90,42
for option in --pack --programs --architecture; do
    expect "$option without a value" 2 "$option wants a value" stand_in gpu "$option"
    expect "$option with an empty one" 2 "$option: the value is empty" stand_in gpu "$option="
    expect "$option twice" 2 "$option: this option is given twice" \
        stand_in gpu "$option" 90 "$option=75"
done

# ---- A row of .ci/matrix, interrupted -----------------------------------------------------------
mkdir -p tree/.ci tree/build/release
echo "slow run release 9" >tree/.ci/matrix
echo "CMAKE_HOME_DIRECTORY:INTERNAL=$place/tree" >tree/build/release/CMakeCache.txt
touch tree/build/release/build.ninja
for tool in ninja ctest; do
    interrupt INT group "a row's $tool" "$tool" test --row slow
    expect "a row's $tool is interrupted" 0 "gx: interrupted in row slow" cat said
done

((failures == 0)) && echo "the launcher's commands for GPUs keep their promises"
exit $((failures > 0))
