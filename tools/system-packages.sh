#!/bin/sh
# Debian packages that the tests (and, with "bench", the benchmarks) need; installs what is missing when root.
set -eu
# command to look for : package that brings it
wanted="/usr/lib/postgresql/*/bin/initdb:postgresql /usr/bin/chromium:chromium /usr/bin/git:git /usr/sbin/ip:iproute2 /usr/bin/setpriv:util-linux /usr/sbin/sshd:openssh-server /usr/bin/systemd-analyze:systemd /usr/lib/*-linux-gnu/faketime/libfaketimeMT.so.1:libfaketime /usr/sbin/slurmctld:slurm-wlm /usr/sbin/munged:munge /usr/bin/git-lfs:git-lfs /usr/bin/openssl:openssl /usr/bin/podman:podman /usr/sbin/runc:runc /usr/bin/busybox:busybox-static"
[ "${1:-}" = bench ] && wanted="$wanted /usr/bin/tsp:task-spooler /usr/bin/rsync:rsync /usr/sbin/nginx:nginx /usr/bin/curl:curl"
missing=""
for pair in $wanted; do
    ls ${pair%%:*} >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "missing system packages:$missing" >&2
    echo "hint: sudo apt-get install$missing" >&2
    [ -z "${CI:-}" ] || exit 1
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086  # a list of names
apt-get install -y -qq --no-install-recommends $missing >/dev/null
