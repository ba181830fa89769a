# The commands of ./gx for GPUs: it reads this file where one of them is called.

# ---- Wheels: PACKAGE==VERSION | folder below build/cuda-headers | what of it is kept ------------
header_wheels() {
    cat <<'TABLE'
nvidia-nccl-cu13==2.28.9|nccl|include/
nvidia-cuda-runtime==13.0.96|cuda|include/
nvidia-cuda-crt==13.0.88|cuda|include/
nvidia-cuda-cccl==13.0.85|cuda|include/nv/
nvidia-cudnn-cu13==9.19.0.56|cudnn|include/
TABLE
}

find_pip() {  # into `pip`
    pip=(python3 -m pip)
    "${pip[@]}" --version >/dev/null 2>&1 && return 0
    install_packages cuda-wheels
    [[ -x build/pip/bin/python3 ]] || python3 -m venv build/pip >/dev/null 2>&1 ||
        die "there is no pip, and python3 can't make an environment with it in build/pip." \
            "Install pip for python3, or python3-venv"
    pip=("$PWD/build/pip/bin/python3" -m pip)
}

need_build_folder() {
    mkdir -p build/logs 2>/dev/null && [[ -w build ]] ||
        die "the folder '$PWD/build' can't be made: remove the file or the dead link of that" \
            "name, or make the tree writable"
}

need_space() {  # need_space MEGABYTES
    local free
    need_build_folder
    free=$(df -Pk build | awk 'NR == 2 { print int($4 * 1024 / 1e6) }')
    ((free >= $1)) || die "the disk of '$PWD/build' has $free MB left, and $1 MB are needed." \
        "Free some, or make build a link to a folder on another disk"
}

# has_wheels FOLDER TABLE: if it holds the wheels of that table.
has_wheels() { [[ -f $1/versions && $(<"$1/versions") == "$2" ]]; }

# fetch_wheels FOLDER TABLE: the wheels of a table into FOLDER/SUBFOLDER, one at a time, only files
# whose path behind nvidia/*/ begins with one of the comma-separated prefixes. FOLDER is complete or
# not there; one that holds the same table stays. Until then FOLDER.part keeps each wheel that is
# complete.
fetch_wheels() {
    local folder=$1 table=$2 wheel sub prefixes log=build/logs/wheels.log made=$1.part lock
    ! has_wheels "$folder" "$table" || return 0
    find_pip
    exec {lock}>"$folder.lock"
    flock -n "$lock" || die "another ./gx is fetching into $folder: wait for it"
    ! has_wheels "$folder" "$table" || return 0
    [[ -f $made/versions && $table$'\n' == "$(<"$made/versions")"$'\n'* ]] || rm -rf "$made"
    trap 'interrupted "; call again, fetched wheels are kept"' INT TERM
    while IFS='|' read -r wheel sub prefixes; do
        ! grep -qxF "$wheel|$sub|$prefixes" "$made/versions" 2>/dev/null || continue
        say "fetching ${wheel/==/ }"
        rm -rf "$made/.wheel"
        mkdir -p "$made/.wheel"
        TMPDIR=$PWD/$made/.wheel "${pip[@]}" download --no-deps --no-cache-dir --progress-bar off \
            --only-binary=:all: --dest "$made/.wheel" "$wheel" >"$log" 2>&1 </dev/null &
        wait $! || explain_fetch "$wheel" "$log" "$made"
        unpack_wheel "$made/.wheel" "$made/$sub" "$prefixes" 2>"$log" &
        wait $! || explain_fetch "$wheel" "$log" "$made"
        rm -rf "$made/.wheel"
        printf '%s\n' "$wheel|$sub|$prefixes" >>"$made/versions"
    done <<<"$table"
    rm -rf "$folder"
    mv "$made" "$folder"
    trap - INT TERM
    exec {lock}>&-
}

explain_fetch() {  # explain_fetch WHEEL LOG FOLDER: why it failed; no return
    local offers
    rm -rf "$3/.wheel"
    [[ -f $3/versions ]] || rm -rf "$3"
    if grep -qi 'no space left' "$2"; then
        die "the disk is full: ${1/==/ } does not fit. Free some space and call again"
    fi
    offers=$(sed -n 's/.*(from versions: \(.*\)).*/\1/p' "$2" | head -n 1)
    [[ -z $offers || $offers == none ]] ||
        die "${1/==/ } is not offered by the package index that pip is configured for, which" \
            "offers $offers. Use another index"
    ! grep -q 'ERROR: Wheel .* is invalid' "$2" ||
        die "${1/==/ }: the wheel is damaged; call again"
    [[ $(<"$2") != gx:* ]] || die "${1/==/ }: $(sed 's/^gx: //' "$2")"
    die "${1/==/ } could not be fetched: is there a network, and does pip reach a package index?" \
        "pip's output is in $2"
}

unpack_wheel() {  # unpack_wheel FOLDER-OF-WHEEL TO PREFIX,PREFIX... in a shell of its own
    exec python3 - "$@" <<'PY'
import glob, os, re, shutil, sys, zipfile
folder, to, prefixes = sys.argv[1:]
wanted = re.compile("nvidia/[^/]+/((?:%s).*[^/])$" % "|".join(prefixes.split(",")))
count = 0
try:
    for wheel in glob.glob(folder + "/*.whl"):
        with zipfile.ZipFile(wheel) as files:
            for entry in files.namelist():
                match = wanted.match(entry)
                if not match or ".." in entry:
                    continue
                out = os.path.join(to, match.group(1))
                os.makedirs(os.path.dirname(out), exist_ok=True)
                with files.open(entry) as source, open(out, "wb") as sink:
                    shutil.copyfileobj(source, sink)
                count += 1
except zipfile.BadZipFile:
    sys.exit("gx: the wheel is damaged; call again")
except OSError as e:
    sys.exit("gx: %s" % e)
if count == 0:
    sys.exit("gx: the wheel holds nothing below %s; it is not NVIDIA's" % prefixes)
PY
}

# ---- cuda-headers -------------------------------------------------------------------------------
run_cuda-headers() {
    local folder=$PWD/build/cuda-headers header packages='' wheel rest_of
    ((${#rest[@]} == 0)) || unknown option "${rest[0]%%=*}" --yes --json --help
    has_wheels "$folder" "$(header_wheels)" || need_space 1500
    fetch_wheels build/cuda-headers "$(header_wheels)"
    for header in cuda/include/cuda_runtime_api.h cudnn/include/cudnn.h nccl/include/nccl.h; do
        [[ -f $folder/$header ]] && continue
        rm -rf "$folder"
        die "the wheels hold no ${header##*/}: not those that gx was written for"
    done
    while IFS='|' read -r wheel rest_of; do
        packages+="${packages:+, }{\"name\": \"${wheel%%==*}\", \"version\": \"${wheel##*==}\"}"
    done < <(header_wheels)
    say "headers of CUDA, cuDNN and NCCL are in $folder, where ./gx test finds them"
    write_json "{\"command\": \"cuda-headers\", \"folder\": $(json_text "$folder"),
 \"packages\": [$packages]}"
}

# ---- cuda-plans ---------------------------------------------------------------------------------
library_wheels() {  # library_wheels GPU
    case $1 in
    v100) cat <<'TABLE' ;;
nvidia-cudnn-cu12==9.10.2.21|cudnn|include/,lib/
nvidia-cublas-cu12==12.9.1.4|cublas|lib/
nvidia-cuda-nvrtc-cu12==12.9.86|nvrtc|lib/
nvidia-cuda-runtime-cu12==12.9.79|cudart|lib/
TABLE
    h100) cat <<'TABLE' ;;
nvidia-cudnn-cu13==9.19.0.56|cudnn|include/,lib/
nvidia-cublas==13.0.2.14|cublas|lib/
nvidia-cuda-nvrtc==13.0.88|nvrtc|lib/
nvidia-cuda-runtime==13.0.96|cudart|lib/
TABLE
    esac
}

# find_part FILE FOLDER...: the first path of FILE below one of the folders, links followed.
find_part() {
    local file=$1 found
    shift
    found=$(find -L "$@" -maxdepth 5 -name "$file" -print -quit 2>/dev/null || true)
    printf '%s' "$found"
}

is_json() {  # is_json FILE: read by CMake, which every build has
    printf 'file(READ "${file}" text)\nstring(JSON length LENGTH "${text}")\n' >build/is_json.cmake
    cmake -D "file=$PWD/$1" -P build/is_json.cmake >/dev/null 2>&1
}

# plan_for GPU FOLDER: reference/cudnn/GPU.json by the libraries below FOLDER.
plan_for() {
    local gpu=$1 folder=$2 tree=build/cuda-plans-$1 cudnn cudart header runtime paths='' name path
    local made=build/cuda-plans-$gpu.json
    header=$(find_part cudnn.h "$folder")
    cudnn=$(find_part 'libcudnn.so.9' "$folder")
    cudart=$(find_part 'libcudart.so*' "$folder" "${CUDA_PATH:-/usr/local/cuda}")
    runtime=$(find_part cuda_runtime_api.h "$folder" build/cuda-headers \
        "${CUDA_PATH:-/usr/local/cuda}")
    for name in libcudnn_graph.so.9 libcublasLt.so.1? libnvrtc.so.1?; do
        path=$(find_part "$name" "$folder")
        [[ -n $path ]] || die "--$gpu: below '$folder' there is no ${name/1\?/12 or .13};" \
            "cuDNN needs its own libraries, cuBLAS and NVRTC"
        paths+=$(dirname "$path"):
    done
    [[ -n $header && -n $cudnn ]] ||
        die "--$gpu: below '$folder' there is no cudnn.h or libcudnn.so.9"
    [[ -n $runtime && -n $cudart ]] || die "cuda_runtime_api.h or libcudart is neither below" \
        "'$folder' nor below '${CUDA_PATH:-/usr/local/cuda}':" \
        "call ./gx cuda-headers, or set CUDA_PATH to a toolkit"
    follow "configuring for $gpu:" "build/logs/configure-cuda-plans-$gpu.log" \
        cmake --preset release -B "$tree" -D GX_BUILD_COMPILED=OFF \
        -D "GX_CUDA_INCLUDE_DIR=$(dirname "$runtime")" -D "GX_CUDART_LIBRARY=$cudart" \
        -D "GX_CUDNN_INCLUDE_DIR=$(dirname "$header")" -D "GX_CUDNN_LIBRARY=$cudnn" ||
        die "the build could not be configured; ./gx doctor lists what is missing"
    follow "building for $gpu:" "build/logs/build-cuda-plans-$gpu.log" \
        ninja -C "$tree" -j "$(job_count)" gx_cuda_plans || die "gx_cuda_plans could not be built"
    say "asking cuDNN for plans for the ${gpu^^}, each in a process of its own: minutes"
    trap 'interrupted "; reference/cudnn/$gpu.json stays as it was"' INT TERM
    env "LD_LIBRARY_PATH=$PWD/$tree/driver:$paths" timeout --kill-after=10 0 \
        "$tree/gx_cuda_plans" "$gpu" >"$made" </dev/null &
    wait $! || die "cuDNN gave no plans for the ${gpu^^}"
    trap - INT TERM
    is_json "$made" || die "cuDNN's plans for the ${gpu^^} are cut off: $made is no whole JSON"
    mv "$made" "reference/cudnn/$gpu.json"
    say "wrote reference/cudnn/$gpu.json"
}

run_cuda-plans() {
    local gpus=() gpu v100='' h100='' name path files=''
    set -- "${rest[@]}"
    while (($# > 0)); do
        case $1 in
        --v100 | --h100)
            [[ -n ${2:-} ]] || die "$1 wants a folder; see ./gx cuda-plans --help"
            set -- "$1=$2" "${@:3}"
            continue ;;
        --v100=?* | --h100=?*)
            name=${1%%=*} name=${name#--}
            [[ -z ${!name} ]] || die "--$name: this option is given twice"
            path=${1#*=}
            [[ $path == /* ]] || path=$called_from/$path
            [[ -d $path ]] || die "--$name: '$path' is not a folder"
            printf -v "$name" %s "$path" ;;
        --v100= | --h100=) die "${1%=}: the value is empty; see ./gx cuda-plans --help" ;;
        v100 | h100)
            [[ " ${gpus[*]} " != *" $1 "* ]] || die "$1: this GPU is given twice"
            gpus+=("$1") ;;
        -*) unknown option "${1%%=*}" --v100 --h100 --yes --json --help ;;
        *) unknown GPU "$1" v100 h100 ;;
        esac
        shift
    done
    if ((${#gpus[@]} == 0)); then
        gpus=(${v100:+v100} ${h100:+h100})
        ((${#gpus[@]} > 0)) || gpus=(v100 h100)
    fi
    for name in v100 h100; do
        [[ -z ${!name} || " ${gpus[*]} " == *" $name "* ]] ||
            die "--$name: $name is not among the GPUs asked for"
    done
    need_build_folder
    install_packages cuda-plans
    mkdir -p reference/cudnn
    for gpu in "${gpus[@]}"; do
        if [[ -z ${!gpu} ]]; then
            has_wheels "build/cuda-libraries/$gpu" "$(library_wheels "$gpu")" || need_space 4000
            mkdir -p build/cuda-libraries
            fetch_wheels "build/cuda-libraries/$gpu" "$(library_wheels "$gpu")"
            fetch_wheels build/cuda-headers "$(header_wheels)"
            printf -v "$gpu" %s "$PWD/build/cuda-libraries/$gpu"
        fi
        plan_for "$gpu" "${!gpu}"
        files+="${files:+, }\"reference/cudnn/$gpu.json\""
    done
    write_json "{\"command\": \"cuda-plans\", \"files\": [$files]}"
}

# ---- gpu: stages, each at most 8 minutes --------------------------------------------------------
gpu_stage_seconds=480

# Stage | what it needs beside a build | its tests, as regular expressions of whole names, or the
# program that measures: into build/gpu/STAGE.json
gpu_stages() {
    cat <<'TABLE'
contract||plugins\.cuda\.testing\.(contract|cudnn\.contract|nccl\.contract)\.real
kernels||plugins\.cuda\.gpu\.(kernels|optimizers)
networks|cudnn|plugins\.cuda\.gpu\.networks
nccl|nccl|plugins\.nccl\.gpu\.reductions
reductions|nccl|gx_nccl_all_reduce_speed
training|nccl cudnn|gx_nccl_train_speed
pytorch|torch|plugins/nccl/gpu/pytorch_peer.py
memcheck|compute-sanitizer|
racecheck|compute-sanitizer|
initcheck|compute-sanitizer|
synccheck|compute-sanitizer|
TABLE
}

# gpu_check NAME NEED VERSION PURPOSE: `check` of doctor, for what `gpu` uses; sets have[NAME].
gpu_check() {
    have[$1]=$3
    check "$@"
}

find_gpu() {  # into gpu_name, gpu_driver, gpu_capability, gpu_count: of the first GPU
    local rows=()
    mapfile -t rows < <(nvidia-smi --query-gpu=name,driver_version,compute_cap \
        --format=csv,noheader 2>/dev/null | grep -E '^[^,]+, [0-9.]+, [0-9]+\.[0-9]+$' || true)
    gpu_count=${#rows[@]} gpu_name='' gpu_driver='' gpu_capability=''
    ((gpu_count == 0)) || IFS=, read -r gpu_name gpu_driver gpu_capability <<<"${rows[0]//, /,}"
}

# find_cuda_compiler: into cuda_compiler and cuda_root, the toolkit's; empty, and no_compiler says
# why, where no compiler has the GPU's architecture. nvcc 13 has none for a V100:
# clang with a CUDA 12 toolkit does.
find_cuda_compiler() {
    local nvcc arch=${gpu_capability/./} name
    cuda_compiler='' cuda_root=''
    for name in CUDA_PATH GX_CUDA12_ROOT; do
        [[ -z ${!name:-} || -d ${!name} ]] ||
            { no_compiler="$name=${!name} is no folder"; return 0; }
    done
    no_compiler='kernels: nvcc, or for sm_70 clang++-19 and GX_CUDA12_ROOT=a CUDA 12 toolkit'
    nvcc=${CUDA_PATH:+$(find_part nvcc "$CUDA_PATH/bin")}
    [[ -n $nvcc ]] || nvcc=$(command -v nvcc || find_part nvcc /usr/local/cuda/bin)
    if [[ -n $nvcc ]] && { [[ -z $arch ]] ||
        "$nvcc" --list-gpu-arch 2>/dev/null | grep -qx "compute_$arch"; }; then
        cuda_compiler=$nvcc cuda_root=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
    elif [[ -n ${GX_CUDA12_ROOT:-} ]] && command -v clang++-19 >/dev/null; then
        cuda_compiler=$(command -v clang++-19) cuda_root=$GX_CUDA12_ROOT
    fi
}

find_library() {  # find_library NAME FOLDER: if its header is there, too
    [[ -z $(find_part "$1.h" "$2") ]] || find_part "lib$1.so*" "$2"
}

check_gpu() {  # prints what is there; sets `lacking` where something needed is not
    local text no_compiler
    echo "gx gpu: what this machine has"
    find_gpu
    find_cuda_compiler
    text=${gpu_name:+$gpu_count x $gpu_name, driver $gpu_driver, sm_${gpu_capability/./}}
    gpu_check GPU needed "$text" "nvidia-smi lists none: a GPU and its driver"
    gpu_check "CUDA compiler" needed "$cuda_compiler" "$no_compiler"
    text=${cuda_root:-${CUDA_PATH:-/usr/local/cuda}}
    gpu_check cudart needed "$(find_part 'libcudart.so*' "$text")" \
        "CUDA's runtime library, below $text"
    gpu_check cudnn optional "$(find_library cudnn "$text")" \
        "its part of stage contract, stages networks and training"
    gpu_check nccl optional "$(find_library nccl "$text")" "stages nccl, reductions and training"
    gpu_check torch optional "$("${GX_PYTHON:-python3}" -c 'import torch; torch.zeros(1).cuda()
print("PyTorch", torch.__version__)' 2>/dev/null || true)" \
        "stage pytorch: PyTorch with CUDA, of GX_PYTHON or python3"
    gpu_check compute-sanitizer optional "$(command -v compute-sanitizer ||
        find_part compute-sanitizer "$text/bin" || true)" \
        "part of the CUDA toolkit: stages memcheck to synccheck"
}

has_all() {  # has_all NAME...: else `lacks` is the first that is missing
    for lacks; do [[ -n ${have[$lacks]} ]] || return 1; done
}

# run_stage NAME TESTS: into `outcome`, `reason` and `seconds`; a stage that passed on this tree is
# not run again.
run_stage() {
    local name=$1 tests=$2 log=build/logs/gpu-$1.log done_file=build/gpu/stages/$1 status=0 program
    local started=$SECONDS before=()
    stage=$name
    [[ ! -f $done_file ]] || mapfile -t before <"$done_file"
    if [[ -z $again && ${before[0]:-} == "$tree_id" ]]; then
        outcome=passed reason="before, on this tree" seconds=${before[1]}
        return 0
    fi
    [[ $name != build ]] || log="build/logs/configure-gpu.log and build/logs/build-gpu.log"
    rm -f "$done_file"
    say "stage $name: at most $((gpu_stage_seconds / 60)) min (log $log)"
    limited "$gpu_stage_seconds" "$started"
    case $name in
    build) build_for_gpu || status=$? ;;
    reductions | training)
        "${time_limit[@]}" "$(find_part "$tests" build/gpu)" --json "build/gpu/$name.json" \
            >"$log" 2>&1 </dev/null &
        wait $! || status=$?
        ((status)) || cat "$log" ;;
    pytorch)
        "${time_limit[@]}" "${GX_PYTHON:-python3}" "$tests" 256 "build/gpu/$name.json" \
            >"$log" 2>&1 </dev/null &
        wait $! || status=$? ;;
    *check)
        : >"$log"
        for program in kernels optimizers; do
            program=$(find_part "plugins.cuda.gpu.$program" build/gpu)
            limited "$gpu_stage_seconds" "$started"
            "${time_limit[@]}" "${have[compute-sanitizer]}" --tool "$name" --error-exitcode 9 \
                "$program" >>"$log" 2>&1 </dev/null &
            wait $! || { status=$?; break; }
        done ;;
    *)
        "${time_limit[@]}" ctest --test-dir build/gpu --no-tests=error -R "^($tests)\$" \
            >"$log" 2>&1 </dev/null &
        wait $! || status=$? ;;
    esac
    outcome=passed reason='' seconds=$((SECONDS - started))
    case $status in
    0)
        if grep -q '\*\*\*Skipped' "$log" 2>/dev/null; then
            text=$(sed -n 's/.* Test *#[0-9]*: \([^ ]*\) .*\*\*\*Skipped.*/\1/p' "$log")
            reason="skipped: ${text//$'\n'/ }"
            outcome=skipped
        else
            mkdir -p build/gpu/stages
            printf '%s\n' "$tree_id" "$seconds" >"$done_file"
        fi ;;
    124) outcome=timeout reason="stopped after $((gpu_stage_seconds / 60)) min; see $log" ;;
    *) outcome=FAILED reason="status $status; see $log" ;;
    esac
}

build_for_gpu() {
    local options=(-D GX_CUDA_GPU=ON -D "CMAKE_CUDA_COMPILER=$cuda_compiler"
        -D "CUDAToolkit_ROOT=$cuda_root" -D "CMAKE_CUDA_ARCHITECTURES=${gpu_capability/./}")
    follow "configuring:" build/logs/configure-gpu.log "${time_limit[@]}" \
        cmake --preset dev -B build/gpu "${options[@]}" || return $?
    limited "$gpu_stage_seconds" "$started"
    targets=(plugins.cuda.gpu.kernels plugins.cuda.gpu.optimizers
        plugins.cuda.testing.contract.real)
    [[ -z ${have[cudnn]} ]] ||
        targets+=(plugins.cuda.testing.cudnn.contract.real plugins.cuda.gpu.networks)
    [[ -z ${have[nccl]} ]] ||
        targets+=(plugins.cuda.testing.nccl.contract.real plugins.nccl.gpu.reductions
            gx_nccl_all_reduce_speed)
    [[ -z ${have[cudnn]} || -z ${have[nccl]} ]] || targets+=(gx_nccl_train_speed)
    build gpu "${targets[@]}"
}

stage_row() {  # stage_row NAME OUTCOME REASON SECONDS: a line, and an item of `stages`
    printf '%-10s %-9s %6d s  %s\n' "$1" "$2" "$4" "$3"
    stages+="${stages:+,}
  {\"stage\": \"$1\", \"outcome\": \"$2\", \"reason\": $(json_text "$3"), \"seconds\": $4}"
}

run_gpu() {
    local check_only='' again='' checks='' stages='' lacking=0 failed=0 name need tests file
    local outcome reason tree_id text targets=() gpu_name gpu_driver gpu_capability gpu_count
    local cuda_compiler cuda_root stage=build seconds lacks
    local -A have=()
    for name in "${rest[@]}"; do
        case $name in
        --check) [[ -z $check_only ]] || die "$name: this option is given twice"; check_only=1 ;;
        --again) [[ -z $again ]] || die "$name: this option is given twice"; again=1 ;;
        *) unknown option "${name%%=*}" --check --again --yes --json --help ;;
        esac
    done
    check_gpu
    if [[ -n $check_only ]] || ((lacking)); then
        text=true
        ((lacking == 0)) || text=false
        write_json "{\"command\": \"gpu\", \"complete\": $text, \"checks\": [$checks]}"
    fi
    [[ -z $check_only ]] || exit "$lacking"
    ((lacking == 0)) || die "something needed is missing, see above; nothing was run"
    need_build_folder
    install_packages test
    tree_id="$(tree_of_files)-$gpu_name-$gpu_driver-$cuda_compiler-$(compiler_version)"
    for name in cudnn nccl compute-sanitizer; do
        tree_id+=-${have[$name]:+$(readlink -f "${have[$name]}")}
    done
    tree_id+=-${have[torch]}
    trap 'interrupted " in stage $stage; what passed is kept: call ./gx gpu again"' INT TERM
    echo
    run_stage build ''
    stage_row build "$outcome" "$reason" "$seconds"
    while IFS='|' read -r name need tests; do
        seconds=0
        if [[ $(stage_outcome build) != passed ]]; then
            outcome='left out' reason="the build has not passed"
        elif ! has_all $need; then
            outcome='left out' reason="$lacks is missing"
            [[ $lacks != compute-sanitizer ]] || reason+=": part of the CUDA toolkit"
        else
            run_stage "$name" "$tests"
        fi
        stage_row "$name" "$outcome" "$reason" "$seconds"
        [[ $outcome == passed || $outcome == 'left out' ]] || failed=1
    done < <(gpu_stages)
    [[ $(stage_outcome build) == passed ]] || failed=1
    measured_file
    exit "$failed"
}

compiler_version() { "$cuda_compiler" --version 2>/dev/null | tail -n 1; }

tree_of_files() {  # changes with any source file; not with what is built and measured
    find . \( -path ./build -o -path ./out -o -path ./.git -o -path ./reference/measured \) -prune \
        -o -type f -print0 | sort -z | xargs -0 sha1sum | sha1sum | cut -c 1-16
}

stage_outcome() {  # of a stage that was run
    sed -n "s/.*\"stage\": \"$1\", \"outcome\": \"\([^\"]*\)\".*/\1/p" <<<"$stages"
}

measured_by() {  # measured_by STAGE: its JSON, or null where it has not passed
    if [[ $(stage_outcome "$1") == passed && -f build/gpu/$1.json ]]; then
        cat "build/gpu/$1.json"
    else
        echo null
    fi
}

measured_file() {  # reference/measured/GPU.json, after the name of the GPU
    name=${gpu_name,,}
    name=${name//[^a-z0-9]/-}
    file=reference/measured/$name.json
    mkdir -p reference/measured
    text="{\"command\": \"gpu\", \"gpu\": $(json_text "$gpu_name"), \"count\": $gpu_count,
 \"driver\": $(json_text "$gpu_driver"), \"compute_capability\": \"$gpu_capability\",
 \"cuda_compiler\": $(json_text "$(compiler_version)"),
 \"stages\": [$stages],
 \"reductions\": $(measured_by reductions),
 \"training\": $(measured_by training),
 \"pytorch\": $(measured_by pytorch),
 \"not_written_yet\": [\"times of kernels\", \"profiles\"]}"
    printf '%s\n' "$text" >"$file.tmp" && mv "$file.tmp" "$file"
    say "wrote $file"
    write_json "$text"
}
