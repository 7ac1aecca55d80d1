#!/bin/bash
# From a root with plain Slurm and without Rust or sources to the first job with --gpu-mem, and how long that takes.
#
#   tests/first-job.sh ROOT PACKAGE SIMULATOR
#
# ROOT: a Debian with slurmctld, slurmd and munge, as `cargo xtask setup` makes them below target/slurm. It stays as it is.
# PACKAGE: a .deb, .rpm or .tar.gz of `cargo xtask package`. SIMULATOR: the directory with nvml-sim and libnvidia_ml.so.
# Run it as root. The daemons run in namespaces of their own, on the ports 27917 and 27918 of this machine.
set -eu
if [ "${INSIDE:-}" != yes ]; then
    INSIDE=yes exec unshare --mount --uts --pid --fork --kill-child bash "$0" "$@"
fi
lower=$1 package=$2 simulator=$3
base=$(mktemp -d) root=
trap 'umount --recursive --lazy "$base"; rmdir "$base"' EXIT
mount -t tmpfs tessera "$base"
root=$base/root
mkdir "$base/upper" "$base/work" "$root"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$base/upper,workdir=$base/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs dev "$root/dev"
mkdir "$root/dev/shm"
chmod 1777 "$root/dev/shm"
for node in "null 3" "zero 5" "random 8" "urandom 9"; do mknod -m 666 "$root/dev/${node% *}" c 1 "${node#* }"; done
inside() { chroot "$root" "$@"; }
as_user() { inside setpriv --reuid=1001 --regid=1001 --clear-groups "$@"; }

# A Slurm as a site has it: two GPUs that gres.conf names, and nothing of Tessera.
hostname n1
echo "127.0.0.1 localhost n1" > "$root/etc/hosts"
grep -q :1001: "$root/etc/passwd" || echo "user:x:1001:1001::/:/bin/sh" >> "$root/etc/passwd"
mkdir -p "$root/etc/slurm" "$root/sim" "$root"/var/spool/{slurmctld,slurmd} "$root"/run/{slurm,munge} "$root/var/log/slurm"
rm -rf "$root"/etc/slurm/* "$root"/var/spool/slurmctld/*
cat > "$root/etc/slurm/slurm.conf" <<END
ClusterName=first
SlurmctldHost=n1
SlurmctldPort=27917
SlurmdPort=27918
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
GresTypes=gpu
DefMemPerCPU=100
NodeName=n1 CPUs=8 RealMemory=8000 Gres=gpu:2
PartitionName=gpu Nodes=ALL Default=YES
END
echo "Name=gpu File=/dev/nvidia[0-1]" > "$root/etc/slurm/gres.conf"
inside chown slurm /var/spool/slurmctld /var/log/slurm /run/slurm
[ -s "$root/etc/munge/munge.key" ] || { head -c 1024 /dev/urandom > "$root/etc/munge/munge.key"; chmod 400 "$root/etc/munge/munge.key"; }
inside chown munge /run/munge /etc/munge/munge.key
inside setpriv --reuid=munge --regid=munge --clear-groups /usr/sbin/munged --foreground 2> "$base/munged" &

# The simulator takes the driver's place.
cp "$simulator/nvml-sim" "$root/sim/"
cp "$simulator/libnvidia_ml.so" "$root/usr/lib/libnvidia-ml.so.1"
printf '%s\n' 'name = "n1"' 'interconnect = "nvswitch"' 'set_mode_resets = true' 'modify_device_files = false' \
    '[[gpus]]' 'model = "a100-40gb"' 'count = 2' 'mig = "off"' > "$root/sim/node.toml"
inside /sim/nvml-sim create --node /sim/node.toml --state /sim/state --root /sim
cp -a "$root/sim/dev/." "$root/dev/"
mount --bind "$root/sim/proc/driver" "$root/proc/driver"
export NVML_SIM_STATE=/sim/state

until_true() { for _ in $(seq 400); do if "$@"; then return; fi; sleep 0.2; done; tail -n 20 "$root"/var/log/slurm/*.log; exit 1; }
answers() { inside scontrol ping 2> /dev/null | grep -q UP; }
is_idle() { inside sinfo --noheader --format %T 2> /dev/null | grep -q '^idle$'; }
start() {
    inside slurmctld -D 2> /dev/null &
    until_true answers
    inside slurmd -D 2> /dev/null &
    until_true is_idle
}
is_gone() { ! kill -0 "$1" 2> /dev/null; }
stop() {
    for daemon in slurmctld slurmd; do
        pid=$(cat "$root/run/slurm/$daemon.pid")
        kill "$pid"
        until_true is_gone "$pid"
    done
}
now() { date +%s.%N; }

inside slurmctld -V
start
as_user srun --chdir=/ --gres=gpu:1 sh -c 'echo "plain Slurm: $(uname -m), CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"'

begin=$(now)
case $package in
*.deb) cp "$package" "$root/tessera.deb" && inside dpkg --install ${DPKG_OPTIONS:-} /tessera.deb ;;
*.rpm) rpm --root "$root" --nodeps --dbpath /var/lib/rpm --upgrade "$package" ;;
*) tar --extract --gzip --file "$package" --directory "$root" && inside tessera setup --plugins-only --apply ;;
esac
installed=$(now)
inside tessera setup --apply
# Prologs know the simulator by this line alone.
sed -i 's|spank_tessera.so|& env=NVML_SIM_STATE=/sim/state|' "$root/etc/slurm/plugstack.conf"
set_up=$(now)
stop
start
restarted=$(now)
echo '#!/bin/sh
echo "with Tessera: $(uname -m), CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"' > "$root/job"
chmod 755 "$root/job"
as_user sbatch --chdir=/ --gpu-mem=10G --output=/tmp/job.out /job
until_true grep -qs '^with Tessera' "$root/tmp/job.out"
ended=$(now)
cat "$root/tmp/job.out"
inside tessera doctor || true
sha256sum "$root/usr/lib/tessera/unstamped/select_cons_tres.so"
echo "$begin $installed $set_up $restarted $ended" |
    awk '{ printf "install %.1f s, setup %.1f s, restarts %.1f s, job %.1f s, together %.1f s\n", $2 - $1, $3 - $2, $4 - $3, $5 - $4, $5 - $1 }'
stop
