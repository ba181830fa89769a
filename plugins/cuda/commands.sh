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

# Stage | what it needs beside its programs
gpu_stages() {
    cat <<'TABLE'
contract|
kernels|
networks|cudnn
ranks|cudnn
nccl|nccl
reductions|nccl
training|nccl cudnn
profile|nccl cudnn ncu python
pytorch|torch
memcheck|compute-sanitizer
racecheck|compute-sanitizer
initcheck|compute-sanitizer
synccheck|compute-sanitizer
TABLE
}

# Stage | a program of it: tests, or one that measures, into build/gpu/STAGE.json | what it needs to
# be built. Where packed programs are run, they need the libraries that the pack's `id` lists.
gpu_programs() {
    cat <<'TABLE'
contract|plugins.cuda.testing.contract.real|
contract|plugins.cuda.testing.cudnn.contract.real|cudnn
contract|plugins.cuda.testing.nccl.contract.real|nccl
kernels|plugins.cuda.gpu.kernels|
kernels|plugins.cuda.gpu.optimizers|
kernels|plugins.cuda.gpu.pooling|
networks|plugins.cuda.gpu.networks|cudnn
ranks|plugins.cuda.gpu.virtual_ranks|cudnn
nccl|plugins.nccl.gpu.reductions|nccl
reductions|gx_nccl_all_reduce_speed|nccl
training|gx_nccl_train_speed|nccl cudnn
TABLE
}
gpu_scripts=(pytorch_peer.py kernel_times.py)  # of plugins/nccl/gpu

# programs_of STAGE: into `found` those that can be run or built here; empty STAGE: of all stages.
# `lacks` is a library that is missing where there are none.
programs_of() {
    local of program needs
    found=()
    while IFS='|' read -r of program needs; do
        [[ -z $1 || $of == "$1" ]] || continue
        [[ -z $programs ]] || needs=${packed_needs[$program]}
        ! has_all $needs || found+=("$program")
    done < <(gpu_programs)
    ((${#found[@]} > 0))
}

program_path() {  # program_path PROGRAM: where it was built, or packed
    if [[ -n $programs ]]; then
        printf '%s' "$programs/$1"
    else
        find build/gpu -name "$1" -type f -perm -u+x -print -quit 2>/dev/null || true
    fi
}

script_path() { printf '%s' "${programs:-plugins/nccl/gpu}/$1"; }

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
# why, where no compiler has all of `architectures`. nvcc 13 has none for a V100: clang with a
# CUDA 12 toolkit does.
find_cuda_compiler() {
    local nvcc name arch
    cuda_compiler='' cuda_root=''
    for name in CUDA_PATH GX_CUDA12_ROOT; do
        [[ -z ${!name:-} || -d ${!name} ]] ||
            { no_compiler="$name=${!name} is no folder"; return 0; }
    done
    no_compiler='kernels: nvcc, or for sm_70 clang++-19 and GX_CUDA12_ROOT=a CUDA 12 toolkit'
    nvcc=${CUDA_PATH:+$(find_part nvcc "$CUDA_PATH/bin")}
    [[ -n $nvcc ]] || nvcc=$(command -v nvcc || find_part nvcc /usr/local/cuda/bin)
    for arch in $architectures; do
        [[ -n $nvcc ]] || break
        grep -qx "compute_$arch" < <("$nvcc" --list-gpu-arch 2>/dev/null) && continue
        no_compiler="$nvcc compiles nothing for sm_$arch; $no_compiler"
        nvcc=''
    done
    if [[ -n $nvcc ]]; then
        cuda_compiler=$nvcc cuda_root=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
    elif [[ -n ${GX_CUDA12_ROOT:-} ]] && command -v clang++-19 >/dev/null; then
        cuda_compiler=$(command -v clang++-19) cuda_root=$GX_CUDA12_ROOT
    fi
}

find_library() {  # find_library NAME FOLDER: if its header is there, too
    [[ -z $(find_part "$1.h" "$2") ]] || find_part "lib$1.so*" "$2"
}

check_compiler() {  # for a build: the compiler and the libraries that programs are linked with
    local no_compiler need=optional
    [[ -z $pack ]] || need=needed
    find_cuda_compiler
    gpu_check "CUDA compiler" needed "$cuda_compiler" "$no_compiler"
    toolkit=${cuda_root:-$toolkit}
    gpu_check cudart needed "$(find_part 'libcudart.so*' "$toolkit")" \
        "CUDA's runtime library, below $toolkit"
    gpu_check cudnn "$need" "$(find_library cudnn "$toolkit")" \
        "its part of stage contract, stages networks, training and profile"
    gpu_check nccl "$need" "$(find_library nccl "$toolkit")" \
        "stages nccl, reductions, training and profile"
    [[ -z $pack ]] || gpu_check binutils needed "$(command -v strip || true)" "strip"
}

check_pack() {  # for packed programs: that the GPU runs them, and the libraries that they load
    local name arch fits='' needed_by
    for arch in $architectures; do
        [[ -n $gpu_capability ]] && ((arch > ${gpu_capability/./})) || fits=1
    done
    text="packed, tree $packed_tree, sm_${architectures// / sm_}"
    gpu_check programs needed "${fits:+$text}" \
        "those for sm_${architectures// / sm_} do not run on sm_${gpu_capability/./}: ./gx gpu \
--pack FOLDER --architecture ${gpu_capability/./}"
    find_runtimes
    for name in cudart cudnn nccl; do
        needed_by=$(grep -c " $name " < <(printf ' %s\n' "${packed_needs[@]}") || true)
        gpu_check "$name" optional "${runtimes[$name]:-}" "${sonames[$name]:-lib$name.so} for\
 $needed_by programs: in python's packages nvidia-*, below $toolkit or where the system looks"
    done
}

check_gpu() {  # prints what is there; sets `lacking` where something needed is not
    local text toolkit=${CUDA_PATH:-/usr/local/cuda}
    echo "gx gpu: what this machine has"
    if [[ -n $pack ]]; then
        check_compiler
        return 0
    fi
    find_gpu
    text=${gpu_name:+$gpu_count x $gpu_name, driver $gpu_driver, sm_${gpu_capability/./}}
    gpu_check GPU needed "$text" "nvidia-smi lists none: a GPU and its driver"
    if [[ -n $programs ]]; then
        check_pack
    else
        architectures=${gpu_capability/./}
        check_compiler
    fi
    gpu_check python optional "$("${GX_PYTHON:-python3}" -c 'import sys
print("Python", sys.version.split()[0])' 2>/dev/null || true)" "stage profile: GX_PYTHON or python3"
    gpu_check torch optional "$("${GX_PYTHON:-python3}" -c 'import torch; torch.zeros(1).cuda()
print("PyTorch", torch.__version__)' 2>/dev/null || true)" \
        "stage pytorch: PyTorch with CUDA, of GX_PYTHON or python3"
    gpu_check ncu optional "$(command -v ncu || find_part ncu "$toolkit/bin" || true)" \
        "part of the CUDA toolkit: stage profile"
    gpu_check compute-sanitizer optional "$(command -v compute-sanitizer ||
        find_part compute-sanitizer "$toolkit/bin" || true)" \
        "part of the CUDA toolkit: stages memcheck to synccheck"
}

has_all() {  # has_all NAME...: else `lacks` is the first that is missing
    for lacks; do [[ -n ${have[$lacks]} ]] || return 1; done
}

# ---- gpu: packed programs -----------------------------------------------------------------------
# A pack is the programs, the scripts, lib/ and `id`, which is written last: lines of
#     tree HASH | compiler TEXT | architectures 75 90 | program NAME SONAME...
is_of_cuda() {  # is_of_cuda SONAME: a library that the machine with the GPU has
    case $1 in
    libcuda.so* | libcudart.so* | libcudnn*.so* | libnccl.so* | libcublas*.so* | libnv*.so*) ;;
    *) return 1 ;;
    esac
}

is_of_libc() {
    case $1 in
    linux-vdso.so* | *ld-linux* | libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so*) ;;
    *) return 1 ;;
    esac
}

pack_programs() {  # builds all programs and copies them into the folder $pack
    local found=() program path name file rest_of id copied=() names='' lacks
    install_packages test
    id="$(tree_of_files) $(compiler_version) $architectures"
    id="tree $(sha1sum <<<"$id" | cut -c 1-16)
compiler $(compiler_version)
architectures $architectures"
    build_for_gpu 0 || die "the programs could not be built, see above; nothing was packed"
    rm -f "$pack/id"
    programs_of ''
    for program in "${found[@]}"; do
        path=$(program_path "$program")
        [[ -n $path ]] || die "the build has made no $program; nothing was packed"
        strip -o "$pack/$program" "$path" || die "strip can't copy $path to $pack"
        id+=$'\n'"program $program"
        names+="${names:+, }\"$program\""
        while read -r name file rest_of; do
            if is_of_cuda "$name"; then
                id+=" $name"
            elif ! is_of_libc "$name" && [[ " ${copied[*]} " != *" $name "* ]]; then
                [[ $file == /* ]] || die "$program: its library $name is not found"
                cp -L "$file" "$pack/lib/$name" || die "$file can't be copied to $pack/lib"
                copied+=("$name")
            fi
        done < <(ldd "$path" | sed -n 's/^[[:space:]]*\([^ ]*\) => \(.*\)/\1 \2/p')
    done
    for name in "${gpu_scripts[@]}"; do
        cp "plugins/nccl/gpu/$name" "$pack" || die "$name can't be copied to $pack"
    done
    printf '%s\n' "$id" >"$pack/id"
    id=${id%%$'\n'*}
    say "packed ${#found[@]} programs for sm_${architectures// / sm_}, $id, into $pack:" \
        "./gx gpu --programs FOLDER runs them"
    name=$(printf ', "%s"' "${copied[@]}")
    write_json "{\"command\": \"gpu\", \"packed\": $(json_text "$pack"), \"tree\": \"${id#tree }\",
 \"cuda_compiler\": $(json_text "$(compiler_version)"), \"architectures\": [${architectures// /, }],
 \"programs\": [$names], \"libraries\": [${name#, }]}"
}

# read_pack: of the folder $programs, into packed_tree, packed_compiler, architectures,
# packed_needs[PROGRAM], as `cudart cudnn nccl`, and sonames[cudnn].
read_pack() {
    local key value program name one
    architectures=''
    [[ -d $programs ]] || die "--programs: '$programs' is not a folder"
    [[ -f $programs/id ]] || die "--programs: '$programs' has no file 'id', which ./gx gpu --pack" \
        "writes last: pack the programs anew"
    while read -r key value; do
        case $key in
        tree) packed_tree=$value ;;
        compiler) packed_compiler=$value ;;
        architectures) architectures=$value ;;
        program)
            program=${value%% *}
            packed_needs[$program]=''
            for one in ${value#"$program"}; do
                name=${one%%.so*} name=${name#lib}
                [[ $name == cudart || $name == cudnn || $name == nccl ]] || continue
                packed_needs[$program]+="$name "
                sonames[$name]=$one
            done ;;
        esac
    done <"$programs/id"
    [[ -n $packed_tree && $architectures =~ ^[0-9]+(\ [0-9]+)*$ ]] ||
        die "--programs: '$programs/id' names no tree or no architectures: pack the programs anew"
    while IFS='|' read -r key program value; do
        [[ -x $programs/$program && -n ${packed_needs[$program]+listed} ]] ||
            die "--programs: '$programs' holds no program '$program': pack the programs anew"
    done < <(gpu_programs)
    for name in "${gpu_scripts[@]}"; do
        [[ -f $programs/$name ]] ||
            die "--programs: '$programs' holds no '$name': pack the programs anew"
    done
}

# find_runtimes: into runtimes[NAME] the library of each of `sonames`. NVIDIA's wheels are mostly
# newer than the system's, so they come first where they are of the CUDA that the programs need;
# cuDNN has one soname for CUDA 12 and 13. Programs find them by with_libraries.
find_runtimes() {
    local wheels=() first=() standard=() name folder path=$programs/lib
    mapfile -t wheels < <("${GX_PYTHON:-python3}" -c 'import glob, nvidia
for package in nvidia.__path__: print(*sorted(glob.glob(package + "/*/lib")), sep="\n")' \
        2>/dev/null || true)
    IFS=: read -r -a standard <<<"${LD_LIBRARY_PATH:-}"
    standard+=(/usr/local/lib /usr/lib/*-linux-gnu /usr/lib64 /usr/lib)
    for folder in "${wheels[@]}"; do
        [[ ! -e $folder/${sonames[cudart]:-none} ]] || first=("${wheels[@]}")
    done
    for name in "${!sonames[@]}"; do
        for folder in "${first[@]}" toolkit "${standard[@]}" "${wheels[@]}"; do
            if [[ $folder == toolkit ]]; then
                runtimes[$name]=$(find_part "${sonames[$name]}" "$toolkit")
            elif [[ -n $folder && -e $folder/${sonames[$name]} ]]; then
                runtimes[$name]=$folder/${sonames[$name]}
            fi
            [[ -z ${runtimes[$name]:-} ]] || break
        done
    done
    # Behind them what cuDNN loads by itself: cuBLAS and NVRTC.
    for folder in "${runtimes[@]%/*}" "${wheels[@]}" "$toolkit/lib64"; do
        [[ -z $folder || :$path: == *":$folder:"* ]] || path+=:$folder
    done
    with_libraries=(env "LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
}

# ---- gpu: runs ----------------------------------------------------------------------------------
# run_limited COMMAND...: in what is left of the stage's time, with all output at the end of $log.
run_limited() {
    limited "$gpu_stage_seconds" "$started"
    "${time_limit[@]}" "$@" >>"$log" 2>&1 </dev/null &
    wait $!
}

# run_tests PROGRAM...: programs of GoogleTest. Returns the status of the first that fails, and
# appends to `skipped` those that have tested nothing.
run_tests() {
    local program begin one status=0
    for program; do
        printf -- '---- %s\n' "$program" >>"$log"
        begin=$(wc -c <"$log") one=0
        run_limited "${with_libraries[@]}" "$(program_path "$program")" || one=$?
        if ((one == 77)) || { ((one == 0)) && grep -qE 'skipped: no GPU|^\[  PASSED  \] 0 tests' \
            < <(tail -c "+$((begin + 1))" "$log"); }; then
            skipped+=" $program"
            one=0
        fi
        ((status)) || status=$one
        ((one != 124)) || return 124
    done
    return "$status"
}

# passed_before STAGE: if it has passed on this tree; then `outcome`, `reason` and `seconds` say so.
passed_before() {
    local before=()
    [[ ! -f build/gpu/stages/$1 ]] || mapfile -t before <"build/gpu/stages/$1"
    [[ ${before[0]:-} == "$tree_id" ]] || return 1
    outcome=passed reason="before, on this tree" seconds=${before[1]}
}

# run_stage NAME: into `outcome`, `reason` and `seconds`; a stage that passed on this tree is not
# run again.
run_stage() {
    local name=$1 log=build/logs/gpu-$1.log done_file=build/gpu/stages/$1 status=0 program
    local started=$SECONDS made=build/gpu/$1.json skipped='' python=${GX_PYTHON:-python3}
    local one=(--gpus 1 --compute fp16 --steps 4)
    stage=$name
    [[ -n $again ]] || ! passed_before "$name" || return 0
    [[ $name != build ]] || log="build/logs/configure-gpu.log and build/logs/build-gpu.log"
    rm -f "$done_file" "$made"
    say "stage $name: at most $((gpu_stage_seconds / 60)) min (log $log)"
    [[ $name == build ]] || { mkdir -p build/logs build/gpu/stages; : >"$log"; }
    case $name in
    build) build_for_gpu "$gpu_stage_seconds" || status=$? ;;
    reductions | training)
        run_limited "${with_libraries[@]}" "$(program_path "${found[0]}")" --json "$made" ||
            status=$?
        ((status)) || cat "$log" ;;
    profile)
        run_limited "${with_libraries[@]}" "${have[ncu]}" --graph-profiling node \
            --metrics gpu__time_duration.sum,dram__bytes.sum --clock-control none --csv -c 3000 \
            "$(program_path gx_nccl_train_speed)" "${one[@]}" || status=$?
        ((status)) || "$python" "$(script_path kernel_times.py)" "$log" "$made" 2>>"$log" ||
            status=$? ;;
    pytorch) run_limited "$python" "$(script_path pytorch_peer.py)" 256 "$made" || status=$? ;;
    *check)
        for program in "${found[@]}"; do
            run_limited "${with_libraries[@]}" "${have[compute-sanitizer]}" --tool "$name" \
                --error-exitcode 9 "$(program_path "$program")" || { status=$?; break; }
        done ;;
    *) run_tests "${found[@]}" || status=$? ;;
    esac
    outcome=passed reason='' seconds=$((SECONDS - started))
    case $status in
    0)
        if [[ -n $skipped ]]; then
            reason="skipped:$skipped"
            outcome=skipped
        else
            mkdir -p build/gpu/stages
            printf '%s\n' "$tree_id" "$seconds" >"$done_file"
        fi ;;
    124) outcome=timeout reason="stopped after $gpu_stage_seconds s; see $log" ;;
    *) outcome=FAILED reason="status $status; see $log" ;;
    esac
}

# build_for_gpu SECONDS: all programs that can be built, for `architectures`, optimised; within
# SECONDS (0: no limit).
build_for_gpu() {
    local begin=$SECONDS found=() options=(-D GX_CUDA_GPU=ON
        -D "CMAKE_CUDA_COMPILER=$cuda_compiler" -D "CUDAToolkit_ROOT=$cuda_root"
        -D "CMAKE_CUDA_ARCHITECTURES=${architectures// /;}"
        -D CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2)
    limited "$1" "$begin"
    follow "configuring:" build/logs/configure-gpu.log "${time_limit[@]}" \
        cmake --preset dev -B build/gpu "${options[@]}" || return $?
    limited "$1" "$begin"
    programs_of ''
    build gpu "${found[@]}"
}

stage_row() {  # stage_row NAME OUTCOME REASON SECONDS: a line, and an item of `stages`
    printf '%-10s %-9s %6d s  %s\n' "$1" "$2" "$4" "$3"
    stages+="${stages:+,}
  {\"stage\": \"$1\", \"outcome\": \"$2\", \"reason\": $(json_text "$3"), \"seconds\": $4}"
}

# read_gpu_options: of `rest`, into check_only, again, pack, programs, architectures and asked, the
# names of stages between commas; empty: all.
read_gpu_options() {
    local name architecture='' stages=''
    set -- "${rest[@]}"
    while (($# > 0)); do
        name=${1%%=*} name=${name#--}
        case $1 in
        --check) [[ -z $check_only ]] || die "$1: this option is given twice"; check_only=1 ;;
        --again) [[ -z $again ]] || die "$1: this option is given twice"; again=1 ;;
        --pack | --programs | --architecture | --stages)
            [[ -n ${2:-} ]] || die "$1 wants a value; see ./gx gpu --help"
            set -- "$1=$2" "${@:3}"
            continue ;;
        --pack= | --programs= | --architecture= | --stages=)
            die "${1%=}: the value is empty; see ./gx gpu --help" ;;
        --pack=* | --programs=* | --architecture=* | --stages=*)
            [[ -z ${!name} ]] || die "--$name: this option is given twice"
            printf -v "$name" %s "${1#*=}" ;;
        *) unknown option "${1%%=*}" --check --again --pack --programs --architecture --stages \
            --yes --json --help ;;
        esac
        shift
    done
    [[ -z $pack || -z $programs ]] ||
        die "choose one: --pack builds programs for another machine, --programs runs them"
    [[ -z $architecture || -n $pack ]] || die "--architecture is for --pack: add it, or leave it" \
        "out, as programs are built for the GPU that is here"
    [[ -z $pack || -z $stages ]] || die "--stages names what is run, and --pack runs none: leave" \
        "out one"
    [[ -z $stages || $stages =~ ^[a-z]+(,[a-z]+)*$ ]] ||
        die "--stages: '$stages' is no list of stages, as training,pytorch"
    for name in ${stages//,/ }; do
        grep -qxF "$name" < <(gpu_stages | cut -d '|' -f 1) ||
            unknown stage "$name" $(gpu_stages | cut -d '|' -f 1)
    done
    asked=${stages:+,$stages,}
    [[ -z $pack || -z $again ]] || die "--again runs stages, and --pack runs none: leave out one"
    architecture=${architecture:-75,90}
    [[ $architecture =~ ^[0-9]{2,3}(,[0-9]{2,3})*$ ]] || die "--architecture: '$architecture' is" \
        "no compute capability without its point, as 90, and no list of them, as 75,90"
    architectures=${architecture//,/ }
    [[ -z $pack || $pack == /* ]] || pack=$called_from/$pack
    [[ -z $programs || $programs == /* ]] || programs=$called_from/$programs
}

run_gpu() {
    local check_only='' again='' checks='' stages='' lacking=0 failed=0 name need file
    local outcome reason tree_id text gpu_name='' gpu_driver='' gpu_capability='' gpu_count=0
    local cuda_compiler='' cuda_root='' stage=build seconds lacks built='' found=()
    local pack='' programs='' architectures='' asked='' packed_tree='' packed_compiler=''
    local with_libraries=()
    local -A have=() packed_needs=() sonames=() runtimes=()
    read_gpu_options
    [[ -z $programs ]] || read_pack
    [[ -z $pack || -n $check_only ]] || { mkdir -p "$pack/lib" && : >"$pack/id.tmp" &&
        rm "$pack/id.tmp"; } 2>/dev/null ||
        die "--pack: the folder '$pack' can't be made or written: choose another"
    check_gpu
    if [[ -n $check_only ]] || ((lacking)); then
        text=true
        ((lacking == 0)) || text=false
        write_json "{\"command\": \"gpu\", \"complete\": $text, \"checks\": [$checks]}"
    fi
    [[ -z $check_only ]] || exit "$lacking"
    ((lacking == 0)) || die "something needed is missing, see above; nothing was run"
    need_build_folder
    if [[ -n $pack ]]; then
        pack_programs
        exit 0
    fi
    if [[ -n $programs ]]; then
        tree_id="packed-$packed_tree-$gpu_name-$gpu_driver"
    else
        install_packages test
        tree_id="$(tree_of_files)-$gpu_name-$gpu_driver-$cuda_compiler-$(compiler_version)"
    fi
    for name in cudart cudnn nccl ncu compute-sanitizer; do
        tree_id+=-${have[$name]:+$(readlink -f "${have[$name]}")}
    done
    tree_id+=-${have[torch]}
    trap 'interrupted " in stage $stage; what passed is kept: call ./gx gpu again"' INT TERM
    echo
    if [[ -n $programs ]]; then
        built=1
        stage_row programs passed "packed, tree $packed_tree" 0
    else
        run_stage build
        [[ $outcome != passed ]] || built=1
        stage_row build "$outcome" "$reason" "$seconds"
    fi
    while IFS='|' read -r name need; do
        seconds=0 outcome='left out'
        if [[ -z $built ]]; then
            reason="the build has not passed"
        elif [[ -n $asked && $asked != *,$name,* ]]; then
            passed_before "$name" || reason="not asked for"
        elif ! has_all $need || ! stage_programs "$name"; then
            reason="$lacks is missing"
            [[ $lacks != compute-sanitizer && $lacks != ncu ]] ||
                reason+=": part of the CUDA toolkit"
        else
            run_stage "$name"
        fi
        stage_row "$name" "$outcome" "$reason" "$seconds"
        [[ $outcome == passed || $outcome == 'left out' ]] || failed=1
    done < <(gpu_stages)
    [[ -n $built ]] || failed=1
    measured_file
    exit "$failed"
}

stage_programs() {  # stage_programs STAGE: programs_of those that the stage runs
    case $1 in
    *check) programs_of kernels ;;
    profile) programs_of training ;;
    pytorch) ;;
    *) programs_of "$1" ;;
    esac
}

compiler_version() {
    if [[ -n $programs ]]; then
        printf '%s' "$packed_compiler"
    else
        "$cuda_compiler" --version 2>/dev/null | tail -n 1
    fi
}

tree_of_files() {  # changes with any source file; not with what is built and measured
    find . \( -path ./build -o -path ./out -o -path ./.git -o -path ./reference/measured \) -prune \
        -o -type f -print0 | sort -z | xargs -0 sha1sum | sha1sum | cut -c 1-16
}

stage_outcome() {  # of a stage that was run
    sed -n "s/.*\"stage\": \"$1\", \"outcome\": \"\([^\"]*\)\".*/\1/p" <<<"$stages"
}

# measured_by STAGE: its JSON, or null. A stage that failed or was stopped may have written some
# figures before; one that is left out has none, though an earlier call may have.
measured_by() {
    if [[ $(stage_outcome "$1") != 'left out' && -s build/gpu/$1.json ]]; then
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
 \"profile\": $(measured_by profile),
 \"pytorch\": $(measured_by pytorch)}"
    printf '%s\n' "$text" >"$file.tmp" && mv "$file.tmp" "$file"
    say "wrote $file"
    write_json "$text"
}
