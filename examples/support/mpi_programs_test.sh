#!/usr/bin/env bash
# mpi_programs_test.sh ROOT BUILD: gx_demo and gx_fashion as two processes of each MPI whose
# programs are in BUILD, on 512 images. Build them by name: gx_demo_openmpi, gx_fashion_mpich, ...
set -uo pipefail
root=$1 build=$2
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
. "$root/tests/launcher/expect.sh"
data=/usr/share/datasets/fashion-mnist

# first PART COUNT: its first images and labels, as plain IDX files.
first() {
    local hex
    hex=$(printf '%08x' "$2" | sed 's/../\\x&/g')
    { printf "\0\0\10\3$hex\0\0\0\34\0\0\0\34"
        zcat -f "$data/$1-images-idx3-ubyte"* | tail -c +17 | head -c $((784 * $2)); } \
        >"$place/$1-images-idx3-ubyte" 2>/dev/null
    { printf "\0\0\10\1$hex"
        zcat -f "$data/$1-labels-idx1-ubyte"* | tail -c +9 | head -c "$2"; } \
        >"$place/$1-labels-idx1-ubyte" 2>/dev/null
}
hash_in() { grep -o '"weights_hash": "[0-9a-f]*"' "$1"; }
lines() { grep -c -- "$1" "$2"; }

[[ -d $data ]] || { echo "skipped: there is no $data (dataset-fashion-mnist)"; exit 0; }
first train 512
first t10k 256
cd "$place" || exit 1
ran=0
for mpi in openmpi mpich; do
    case $mpi in
    openmpi) launch=(mpirun.openmpi --bind-to none --oversubscribe --allow-run-as-root -n 2) ;;
    mpich) launch=(mpiexec.mpich -n 2 setsid --wait) ;;
    esac
    command -v "${launch[0]}" >/dev/null || continue
    launch=(timeout 120 "${launch[@]}")
    if [[ -x $build/gx_demo_$mpi ]]; then
        ran=$((ran + 1))
        "${launch[@]}" "$build/gx_demo_$mpi" --data . --batch 64 --output demo --json demo.json \
            >demo.txt 2>demo.log || fail "gx_demo_$mpi: $(cat demo.txt demo.log)"
        expect "the table" 0 "SharedMemory<fp32>  " cat demo.txt
        expect "which reducer is told of" 0 "SharedMemory<fp32> reduces in one pass" cat demo.txt
        (($(lines "^reducer " demo.txt) == 1)) || fail "one table: $(cat demo.txt)"
        (($(lines "gx: mpi::World; 2 ranks on 1 host" demo.log) == 1)) ||
            fail "one line says what runs: $(cat demo.log)"
        (($(lines 'training 100 %' demo.log) == 4)) || fail "one progress: $(cat demo.log)"
        (($(ls demo | wc -l) == 10)) || fail "a report, a picture, 4 records, 4 traces: $(ls demo)"
        # In fp32 the mean of two is the same sum for a ring and in shared memory.
        (($(hash_in demo.json | sort | uniq -d | wc -l) == 1)) || fail "hashes: $(cat demo.json)"
        expect "data that are not there" 0 "nowhere/train-images-idx3-ubyte" \
            bash -c '! "$@"' - "${launch[@]}" "$build/gx_demo_$mpi" --data nowhere
    fi
    if [[ -x $build/gx_fashion_$mpi ]]; then
        ran=$((ran + 1))
        for epochs in 1 2; do  # the second resumes
            "${launch[@]}" "$build/gx_fashion_$mpi" --data . --epochs 2 --keep 0 --output fashion \
                --resume latest --json fashion.json >fashion.txt 2>fashion.log ||
                fail "gx_fashion_$mpi: $(cat fashion.txt fashion.log)"
            ((epochs == 2)) || rm -f fashion/epoch-0002*
        done
        (($(lines "images/s; report fashion/report.html" fashion.txt) == 1)) ||
            fail "one report: $(cat fashion.txt)"
        (($(ls fashion/epoch-*.safetensors | wc -l) == 2)) || fail "checkpoints: $(ls fashion)"
        (($(grep -c '"step"' fashion/metrics.jsonl) >= 8)) || fail "metrics: $(ls fashion)"
        if [[ -x $build/gx_fashion ]]; then
            "$build/gx_fashion" --data . --epochs 2 --output threads --json threads.json \
                >threads.txt 2>&1 || fail "gx_fashion: $(cat threads.txt)"
            [[ $(hash_in threads.json) == "$(hash_in fashion.json)" ]] ||
                fail "processes have other weights than threads"
        fi
        rm -rf fashion threads
    fi
    rm -rf demo
done
((ran > 0)) || { echo "skipped: gx_demo_MPI and gx_fashion_MPI are not built"; exit 0; }
((failures == 0)) && echo "$ran programs ran on two processes"
exit $((failures > 0))
