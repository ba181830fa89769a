#!/usr/bin/env bash
# agent.sh: in the place of ssh for MPI's launchers: runs a command line on a host of hosts.sh.
#   agent.sh [OPTION OF SSH...] ADDRESS COMMAND...
set -euo pipefail
while [[ ${1:-} == -* ]]; do
    case $1 in
    -o | -l | -p | -i) shift 2 ;;
    *) shift ;;
    esac
done
read -ra pids <<<"${GX_NETNS_PIDS:?agent.sh: run it in hosts.sh, which sets GX_NETNS_PIDS}"
host=$((${1##*.} - 1))
shift
exec nsenter --target "${pids[host]}" --net --uts --ipc --mount --wd="$PWD" bash -c "$*"
