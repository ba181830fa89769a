#!/usr/bin/env bash
# hosts.sh: runs a program on 2 to 16 hosts that are network namespaces of this machine, joined by
# links of limited rate. `hosts.sh --help` describes it.
set -euo pipefail

usage() {
    cat <<'TEXT'
plugins/mpi/netns/hosts.sh --hosts N --rate MBIT [OPTION...] -- PROGRAM [ARGUMENT...]

Makes N hosts (2 to 16) of network namespaces, joined by a switch, runs PROGRAM, removes them and
exits with its status. Each host has a network, a host name (host0, host1, ...), a /dev/shm and
System V memory of its own, so that no library takes two of them for one node. Their addresses are
10.77.0.1, 10.77.0.2, ... PROGRAM runs on host0; with --mpi there are its ranks on each host.

  --rate MBIT        of each host's link, in Mb/s of Ethernet frames, in each direction
  --leaf M           a leaf switch for each M hosts, under one spine; needs --trunk
  --trunk MBIT       of the link between a leaf and the spine, in each direction
  --slow HOST:MBIT   another rate for the link of one host
  --flow MBIT        the most from one host to one other
  --mpi NAME         openmpi or mpich: PROGRAM's ranks, under that MPI's launcher
  --ranks R[,R...]   on each host (1), or on host0, host1, ..., numbered host by host; needs
                     --mpi

It needs root, and iproute2's ip and tc; it exits with 77 and a sentence where it lacks them. The
namespaces belong to its processes: they are gone once it has ended, also by a signal, and several
can run side by side. A port shares its rate equally among the pairs of hosts that send over it
(htb, a class a pair), as the fair shares of gx::sim do; acknowledgements don't wait behind data.
TEXT
}
refuse() {
    printf 'hosts.sh: %s\n' "$*" >&2
    exit 2
}
lacks() {
    printf 'hosts.sh: skipped: %s\n' "$*" >&2
    exit 77
}
whole() {  # whole OPTION VALUE LEAST MOST
    [[ $2 =~ ^(0|[1-9][0-9]{0,5})$ ]] && (($2 >= $3 && $2 <= $4)) ||
        refuse "$1: '$2' is not a whole number from $3 to $4"
}

hosts='' rate='' leaf='' trunk='' slow='' flow='' mpi='' ranks=''
given=("$@")
while (($# > 0)) && [[ $1 != -- ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --hosts | --rate | --leaf | --trunk | --slow | --flow | --mpi | --ranks)
        (($# > 1)) && [[ $2 != -- ]] || refuse "$1: a value is missing"
        printf -v "${1#--}" %s "$2"
        shift 2 ;;
    *) refuse "unknown option '$1'; --help lists them" ;;
    esac
done
(($# > 1)) || refuse "a program is missing: end with -- PROGRAM [ARGUMENT...]"
shift
whole --hosts "$hosts" 2 16
whole --rate "$rate" 1 10000
[[ -z $leaf$trunk || ( -n $leaf && -n $trunk ) ]] || refuse "--leaf and --trunk: give both"
[[ -z $leaf ]] || { whole --leaf "$leaf" 1 "$((hosts - 1))"; whole --trunk "$trunk" 1 100000; }
[[ -z $flow ]] || whole --flow "$flow" 1 10000
if [[ -n $slow ]]; then
    [[ $slow == *:* ]] || refuse "--slow: '$slow' is not HOST:MBIT"
    whole --slow "${slow%%:*}" 0 "$((hosts - 1))"
    whole --slow "${slow#*:}" 1 10000
fi
[[ -z $ranks || -n $mpi ]] || refuse "--ranks: give --mpi too"
IFS=, read -ra ranks <<<"${ranks:-1},"  # [host]
if ((${#ranks[@]} == 1)); then
    for ((h = 1; h < hosts; h++)); do ranks+=("${ranks[0]}"); done
fi
((${#ranks[@]} == hosts)) || refuse "--ranks: give one number, or one for each of $hosts hosts"
all_ranks=0
for r in "${ranks[@]}"; do
    whole --ranks "$r" 1 64
    all_ranks=$((all_ranks + r))
done
case $mpi in
'') ;;
openmpi) launcher=mpirun.openmpi ;;
mpich) launcher=mpiexec.mpich ;;
*) refuse "--mpi: '$mpi' is neither openmpi nor mpich" ;;
esac

export PATH=$PATH:/usr/sbin:/sbin
((EUID == 0)) || lacks "network namespaces and limited links need root; run it with sudo"
for tool in ip tc unshare setpriv nsenter; do
    command -v "$tool" >/dev/null || lacks "there is no $tool; install iproute2 and util-linux"
done
[[ -z $mpi ]] || command -v "$launcher" >/dev/null || lacks "there is no $launcher"

# ---- Inside: this process's own network namespace is the switches' ---------------------------
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
if [[ -z ${GX_NETNS:-} ]]; then
    unshare --net true 2>/dev/null ||
        lacks "this kernel or container lets no process make a network namespace"
    # unshare takes no signal but SIGKILL, which then ends all of its processes.
    GX_NETNS=1 setpriv --pdeathsig KILL unshare --net --mount --pid --fork --kill-child \
        --mount-proc --propagation private "$here/hosts.sh" "${given[@]}" <&0 &
    inner=$!
    end() {  # end STATUS; without the shell's line about a job that was killed
        { kill -KILL "$inner"; wait "$inner" || true; } 2>/dev/null
        exit "$1"
    }
    trap 'end 143' TERM
    trap 'end 130' INT
    trap 'end 129' HUP
    status=0
    wait "$inner" || status=$?
    exit "$status"
fi
unset GX_NETNS

burst=16384  # bytes: below 1 ms of the rate the limiter's timer would take from it

# limit ENTER DEVICE MBIT SOURCES DESTINATIONS: its frames, a class for each pair of these hosts.
# Acknowledgements without data (an IP packet below 64 bytes) have a class of their own.
limit() {
    local enter=$1 device=$2 mbit=$3 most=$3 a b class=16 pairs=0
    [[ -z $flow ]] || ((flow >= mbit)) || most=$flow
    for a in $4; do for b in $5; do ((a == b)) || pairs=$((pairs + 1)); done; done
    $enter tc -batch - <<TEXT
qdisc add dev $device root handle 1: htb default 2
class add dev $device parent 1: classid 1:1 htb rate ${mbit}mbit burst $burst cburst $burst \
quantum 3028
class add dev $device parent 1:1 classid 1:2 htb rate $((mbit * 50))kbit ceil ${mbit}mbit \
burst $burst cburst $burst prio 0 quantum 3028
filter add dev $device parent 1: protocol ip prio 1 u32 match u16 0 0xffc0 at 2 flowid 1:2
$(for a in $4; do
        for b in $5; do
            ((a != b)) || continue
            class=$((class + 1))
            id=$(printf '%x' "$class")
            cat <<PAIR
class add dev $device parent 1:1 classid 1:$id htb rate $((mbit * 900 / pairs))kbit \
ceil ${most}mbit burst $burst cburst $burst prio 1 quantum 3028
qdisc add dev $device parent 1:$id bfifo limit $queue
filter add dev $device parent 1: protocol ip prio 2 u32 match ip src 10.77.0.$((a + 1)) \
match ip dst 10.77.0.$((b + 1)) flowid 1:$id
PAIR
        done
    done)
TEXT
}
queue=524288  # bytes of each pair: above what TCP's window lets be under way, so nothing is lost

bridge() { ip link add "$1" type bridge && ip link set "$1" up; }
between() { seq -s ' ' "$1" $(($2 - 1)); }

ip link set lo up
all=$(between 0 "$hosts")
bridge spine
if [[ -n $leaf ]]; then
    for ((b = 0; b * leaf < hosts; b++)); do
        last=$(((b + 1) * leaf))
        ((last <= hosts)) || last=$hosts
        inside=$(between $((b * leaf)) "$last") outside=''
        for h in $all; do [[ " $inside " == *" $h "* ]] || outside+="$h "; done
        bridge "leaf$b"
        ip link add "up$b" type veth peer name "down$b"
        ip link set "up$b" master "leaf$b" up
        ip link set "down$b" master spine up
        limit '' "up$b" "$trunk" "$inside" "$outside"
        limit '' "down$b" "$trunk" "$outside" "$inside"
    done
fi
pids=()
for h in $all; do
    switch=spine mbit=$rate
    [[ -z $leaf ]] || switch=leaf$((h / leaf))
    [[ ${slow%%:*} != "$h" ]] || mbit=${slow#*:}
    exec {host}< <(exec unshare --net --uts --ipc --mount --propagation private bash -c '
        hostname "$0" && mount -t tmpfs -o mode=1777 none /dev/shm && mount -t sysfs none /sys &&
        echo ready && exec sleep infinity' "host$h" 2>&1)
    pid=$!
    read -r said <&"$host" && [[ $said == ready ]] ||
        refuse "host$h can't be made: ${said:-it ended}"
    exec {host}<&-
    pids+=("$pid")
    ip link add "port$h" type veth peer name eth0 netns "$pid"
    ip link set "port$h" gso_max_size 12000 gso_max_segs 8 master "$switch" up
    nsenter -t "$pid" -n ip -batch - <<TEXT
link set lo up
link set eth0 gso_max_size 12000 gso_max_segs 8
addr add 10.77.0.$((h + 1))/24 dev eth0
link set eth0 up
route replace 10.77.0.0/24 dev eth0 src 10.77.0.$((h + 1)) congctl cubic \
rto_min 20ms cwnd lock 32
TEXT
    limit "nsenter -t $pid -n" eth0 "$mbit" "$h" "$all"
    limit '' "port$h" "$mbit" "$all" "$h"
done

# ---- The program ---------------------------------------------------------------------------
export GX_NETNS_PIDS=${pids[*]}  # of host0, host1, ...: agent.sh enters them
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
command=("$@")
case $mpi in
openmpi)
    for h in $all; do echo "10.77.0.$((h + 1)) slots=${ranks[h]}"; done >"$files/hosts"
    command=(mpirun.openmpi --allow-run-as-root --bind-to none --hostfile "$files/hosts"
        --mca plm_rsh_agent "$here/agent.sh" --mca plm_rsh_no_tree_spawn 1
        --mca oob_tcp_if_include eth0 --mca pml ob1 --mca btl self,vader,tcp
        --mca btl_tcp_if_include eth0 --mca mpi_yield_when_idle 1
        --mca orte_tmpdir_base "$files" -n "$all_ranks" "$@") ;;
mpich)
    for h in $all; do echo "10.77.0.$((h + 1)):${ranks[h]}"; done >"$files/hosts"
    command=(mpiexec.mpich -launcher ssh -launcher-exec "$here/agent.sh" -iface eth0
        -f "$files/hosts" -genv UCX_NET_DEVICES eth0 -genv UCX_TLS tcp,self -n "$all_ranks"
        setsid --wait "$@") ;;
esac
status=0
"$here/agent.sh" 10.77.0.1 exec "$(printf '%q ' "${command[@]}")" || status=$?
exit "$status"
