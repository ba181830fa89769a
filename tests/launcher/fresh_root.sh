#!/usr/bin/env bash
# fresh_root.sh FOLDER [COMMAND...]: a bare Debian 12 below FOLDER, a copy of the committed tree in
# it, and there the launcher: `doctor`, then COMMAND, or `test --yes` where none is given.
#
#     tests/launcher/fresh_root.sh /tmp/bare demo --yes
#
# Wants root and debootstrap. An existing FOLDER is used again, so that a second call is shorter;
# MIRROR names another Debian mirror than this machine's, APT_CONF a file of apt settings.
set -euo pipefail
(($# >= 1)) || { sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
root=$1
shift
(($# > 0)) || set -- test --yes
((EUID == 0)) || { echo "fresh_root.sh: debootstrap and chroot need root" >&2; exit 2; }

# Where this machine's own apt gets its packages from.
mirror=${MIRROR:-$(sed -nE 's/^(deb [^#]*|URIs: *)(https?:[^ ]+).*/\2/p' /etc/apt/sources.list \
    /etc/apt/sources.list.d/* 2>/dev/null | head -n 1 || true)}
: "${mirror:?no Debian mirror found in /etc/apt: name one in MIRROR}"

if [[ ! -x $root/usr/bin/apt-get ]]; then
    mkdir -p "$root"
    debootstrap --variant=minbase bookworm "$root" "$mirror"
    for suite in bookworm bookworm-updates; do
        echo "deb $mirror $suite main"
    done >"$root/etc/apt/sources.list"
fi
[[ -z ${APT_CONF:-} ]] || cp "$APT_CONF" "$root/etc/apt/apt.conf.d/99fresh-root"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true

# What git has, and nothing of this machine's build folders.
mkdir -p "$root/gx"
git -C "$tree" archive HEAD | tar -x -C "$root/gx"

mounted=()
unmount() { for place in "${mounted[@]}"; do umount "$place" || true; done; }
trap unmount EXIT
for place in proc dev; do
    mountpoint -q "$root/$place" && continue
    mount --bind "/$place" "$root/$place" && mounted=("$root/$place" "${mounted[@]}")
done

inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    bash -c 'cd /gx && exec ./gx "$@"' gx "$@"; }
inside doctor || echo "(as expected of a bare root: something is missing)"
SECONDS=0
status=0
inside "$@" </dev/null || status=$?
echo "fresh_root.sh: ./gx $* ended with $status after $SECONDS s"
exit "$status"
