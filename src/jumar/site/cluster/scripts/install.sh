#!/bin/sh
# Installs Slurm on the hosts of this cluster over SSH and starts it; again is harmless.
# Each host needs root or sudo without a password. Debian, Ubuntu and openEuler.
set -eu
cd "$(dirname "$0")"
controller=@CONTROLLER@

on() { ssh -o BatchMode=yes "$1" 'if [ "$(id -u)" = 0 ]; then sh -s; else sudo -n sh -s; fi'; }
# The key goes over standard input: it is in no list of processes and in no file on the way.
put() { { printf 'umask 077; mkdir -p "%s"; base64 -d > "%s/%s.new" <<"END"\n' "$3" "$3" "$2"; base64 < "$2"
    printf 'END\nchmod %s "%s/%s.new"; chown %s "%s/%s.new"; mv "%s/%s.new" "%s/%s"\n' \
        "$4" "$3" "$2" "$5" "$3" "$2" "$3" "$2" "$3" "$2"; } | on "$1"; }

for host in @HOSTS@; do
    echo "== $host"
    on "$host" <<'END'
set -eu
if command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends munge slurmd slurm-client slurmctld >/dev/null
elif command -v dnf >/dev/null; then
    dnf install -y -q munge slurm slurm-slurmd slurm-slurmctld
else
    echo "error: neither apt-get nor dnf was found" >&2
    exit 1
fi
id slurm >/dev/null 2>&1 || useradd --system --home-dir /var/lib/slurm --shell /usr/sbin/nologin slurm
mkdir -p /etc/slurm /var/spool/slurmd /var/lib/slurm/slurmctld /var/log/slurm
chmod 755 /etc/slurm
chown slurm: /var/lib/slurm /var/lib/slurm/slurmctld /var/log/slurm
END
    put "$host" munge.key /etc/munge 0400 munge:munge
    for file in slurm.conf gres.conf cgroup.conf; do put "$host" "$file" /etc/slurm 0644 root:root; done
    echo 'systemctl enable --quiet munge && systemctl restart munge' | on "$host"
done
echo 'systemctl enable --quiet slurmctld && systemctl restart slurmctld' | on "$controller"
for host in @HOSTS@; do echo 'systemctl enable --quiet slurmd && systemctl restart slurmd' | on "$host"; done
exec ./check.sh
