#!/usr/bin/env bash
# slurm.sh: runs a command below a Slurm cluster of this machine alone, which it starts and ends.
# `slurm.sh --help` describes it.
set -euo pipefail

usage() {
    cat <<'TEXT'
tests/support/slurm.sh [--cpus N] -- COMMAND [ARGUMENT...]

Starts munged, slurmctld and slurmd in a new folder, runs COMMAND with SLURM_CONF set, as in
    slurm.sh -- srun --overcommit -n 4 --mpi=pmix PROGRAM     Open MPI; --mpi=pmi2: MPICH
and exits with its status. The daemons and the folder are gone once it has ended. It listens at
ports of the loopback interface that the kernel has free, and touches no other Slurm.

  --cpus N    that the node claims to have (all of this machine's)

It needs root and Debian's slurmctld, slurmd, slurm-client and munge; where it lacks them, or they
can't be started, it exits with 77 and a sentence.
TEXT
}
refuse() {
    printf 'slurm.sh: %s\n' "$*" >&2
    exit 2
}
lacks() {
    printf 'slurm.sh: skipped: %s\n' "$*" >&2
    exit 77
}

cpus=$(nproc)
while (($# > 0)) && [[ $1 != -- ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --cpus)
        [[ ${2:-} =~ ^[1-9][0-9]{0,3}$ ]] || refuse "--cpus: '${2:-}' is not a whole number above 0"
        cpus=$2
        shift 2 ;;
    *) refuse "unknown option '$1'; --help lists them" ;;
    esac
done
(($# > 1)) || refuse "a command is missing: end with -- COMMAND [ARGUMENT...]"
shift
export PATH=$PATH:/usr/sbin:/sbin
((EUID == 0)) || lacks "slurmd starts programs as their users, which needs root; run it with sudo"
for tool in munged slurmctld slurmd srun sinfo; do
    command -v "$tool" >/dev/null ||
        lacks "there is no $tool; install slurmctld, slurmd, slurm-client and munge"
done

# ---- Outside: the daemons, and what they start, are a process namespace that ends with COMMAND ---
if [[ -z ${GX_SLURM_FOLDER:-} ]]; then
    unshare --pid --fork true 2>/dev/null ||
        lacks "this kernel or container lets no process make a process namespace"
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    GX_SLURM_FOLDER=$folder unshare --mount --pid --fork --kill-child --mount-proc \
        --propagation private "$(readlink -f "${BASH_SOURCE[0]}")" --cpus "$cpus" -- "$@" &
    inside=$!
    trap 'kill "$inside"; wait "$inside"; exit 143' TERM
    trap 'kill "$inside"; wait "$inside"; exit 130' INT
    status=0
    wait "$inside" || status=$?
    exit "$status"
fi
folder=$GX_SLURM_FOLDER
unset GX_SLURM_FOLDER

free_port() {  # free_port BUT: one at which nothing listens now
    local port
    for _ in {1..100}; do
        port=$((20000 + RANDOM % 10000))
        [[ $port == "$1" ]] || (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    printf '%s' "$port"
}
begin() {  # begin NAME COMMAND...: a daemon, in the background
    "${@:2}" >"$folder/$1.out" 2>&1 </dev/null &
}
until_true() {  # until_true COMMAND...: tries for 20 s
    local end=$((SECONDS + 20))
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}

host=$(hostname --short)  # a node has this name, where the machine's has a domain too
control=$(free_port 0) node=$(free_port "$control")
mkdir "$folder/state" "$folder/spool"
cat >"$folder/slurm.conf" <<TEXT
ClusterName=gx
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$folder/munge.sock
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$control
SlurmdPort=$node
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cpus State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES OverSubscribe=FORCE:8
TEXT
export SLURM_CONF=$folder/slurm.conf
head -c 256 /dev/urandom >"$folder/munge.key"
chmod 400 "$folder/munge.key"
chmod 755 "$folder"
begin munged munged --force --foreground --key-file="$folder/munge.key" \
    --socket="$folder/munge.sock" --pid-file="$folder/munge.pid" \
    --log-file="$folder/munge.log" --seed-file="$folder/munge.seed"
until_true test -S "$folder/munge.sock" ||
    lacks "munged does not start: $(cat "$folder/munged.out")"
begin slurmctld slurmctld -D -f "$SLURM_CONF"
begin slurmd slurmd -D -f "$SLURM_CONF"
is_idle() { [[ $(sinfo --noheader --format=%T) == idle ]]; }
until_true is_idle || lacks "slurmd does not come: $(tail -n 3 "$folder/slurmctld.out" \
    "$folder/slurmd.out" | tr '\n' ' ')"
status=0
"$@" || status=$?
exit "$status"
