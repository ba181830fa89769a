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

need_space() {  # need_space MEGABYTES
    local free
    mkdir -p build
    free=$(df -Pk build | awk 'NR == 2 { print int($4 * 1024 / 1e6) }')
    ((free >= $1)) || die "the disk of '$PWD/build' has $free MB left, and $1 MB are needed." \
        "Free some, or make build a link to a folder on another disk"
}

# fetch_wheels FOLDER: the wheels of a table on standard input into FOLDER/SUBFOLDER, one at a time,
# only files whose path behind nvidia/*/ begins with one of the comma-separated prefixes. FOLDER is
# complete or not there; one that holds the same table stays.
fetch_wheels() {
    local folder=$1 table wheel sub prefixes log=build/logs/wheels.log made=$1.part
    table=$(cat)
    [[ ! -f $folder/versions || $(<"$folder/versions") != "$table" ]] || return 0
    find_pip
    rm -rf "$made"
    mkdir -p "$made" build/logs
    while IFS='|' read -r wheel sub prefixes; do
        say "fetching ${wheel/==/ }"
        mkdir -p "$made/.wheel"
        TMPDIR=$PWD/$made/.wheel "${pip[@]}" download --no-deps --no-cache-dir --progress-bar off \
            --only-binary=:all: --dest "$made/.wheel" "$wheel" >"$log" 2>&1 </dev/null ||
            explain_fetch "$wheel" "$log" "$made"
        unpack_wheel "$made/.wheel" "$made/$sub" "$prefixes" 2>"$log" ||
            explain_fetch "$wheel" "$log" "$made"
        rm -rf "$made/.wheel"
    done <<<"$table"
    printf '%s\n' "$table" >"$made/versions"
    rm -rf "$folder"
    mv "$made" "$folder"
}

explain_fetch() {  # explain_fetch WHEEL LOG FOLDER: why it failed; no return
    local offers
    rm -rf "$3"
    if grep -qi 'no space left' "$2"; then
        die "the disk is full: ${1/==/ } does not fit. Free some space and call again"
    fi
    offers=$(sed -n 's/.*(from versions: \(.*\)).*/\1/p' "$2" | head -n 1)
    [[ -z $offers || $offers == none ]] ||
        die "${1/==/ } is not offered by the package index that pip is configured for, which" \
            "offers $offers. Use another index"
    [[ $(<"$2") != gx:* ]] || die "${1/==/ }: $(sed 's/^gx: //' "$2")"
    die "${1/==/ } could not be fetched: is there a network, and does pip reach a package index?" \
        "pip's output is in $2"
}

unpack_wheel() {  # unpack_wheel FOLDER-OF-WHEEL TO PREFIX,PREFIX...
    python3 - "$@" <<'PY'
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
    ((${#rest[@]} == 0)) || unknown option "${rest[0]}" --yes --json --help
    [[ -f $folder/versions && $(<"$folder/versions") == "$(header_wheels)" ]] || need_space 1500
    header_wheels | fetch_wheels build/cuda-headers || exit $?
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
