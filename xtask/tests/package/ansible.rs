//! `contrib/ansible` installs, sets up and removes packages on machines that share this one's root and nothing else.
//!
//! Each machine is a chroot: this machine's files below, a file system in memory above. Ansible connects to it by a shell that enters the
//! chroot. Stand-ins for `systemctl` and Slurm's commands write down how they are called.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lab::artefacts::{Profile, programs};
use lab::command::{PATIENCE, run, wait_for};
use lab::paths::{target_dir, workspace};

/// slurmctld's machine has no GPU. The node has GPUs, and no file of Slurm's but what slurmctld has sent. sackd runs on the login node.
const HOSTS: [&str; 3] = ["ctl", "n1", "login1"];

const SLURM_CONF: &str = "ClusterName=c\nSlurmctldHost=ctl\nNodeName=n1 Gres=gpu:2\nPartitionName=p Nodes=ALL\nGresTypes=gpu\n\
                          SelectType=select/cons_tres\n";
const GPUS: &str =
    "name = \"n1\"\ninterconnect = \"nvswitch\"\n[[gpus]]\nmodel = \"a100-40gb\"\ncount = 2\nmig = \"off\"\n";

/// A stand-in for a command. slurmctld drains the node itself when it knows of shards and slurmd does not, until the role gives another reason.
/// Machines to which slurmctld sends its files get them when sackd or slurmd starts.
const STAND_IN: &str = r#"#!/bin/sh
name=${0##*/}
case "$*" in -V | *is-active* | *ExecStart*) ;; *) echo "$name $*" >> /calls ;; esac
case "$name $*" in
systemctl*is-active*) exec grep --quiet --line-regexp "$3" /active ;;
systemctl\ restart\ slurmctld) rm -rf SENT && mkdir SENT && cp /etc/slurm/*.conf SENT ;;
systemctl\ restart\ s*) rm -f /run/slurm/conf/* && cp SENT/* /run/slurm/conf ;;
systemctl\ show*) echo LoadState=loaded; echo ActiveState=active ;;
sinfo\ --noheader*) cat /reason ;;
scontrol*reason=*) echo "${*##*reason=}" > /reason ;;
esac
"#;

/// Makes the machines, in a mount namespace that ends with the shell: `$1` the test's directory.
const BEGIN: &str = r#"set -e
dir=$1; shift
mount -t tmpfs roots "$dir/roots"
for host; do
  root=$dir/roots/$host
  mkdir -p "$root" "$root.upper" "$root.work"
  mount -t overlay overlay -o "lowerdir=/,upperdir=$root.upper,workdir=$root.work" "$root"
  mount --rbind /dev "$root/dev"
  mount -t proc proc "$root/proc"
  mkdir -p "$root$dir/shared"
  mount --bind "$dir/shared" "$root$dir/shared"
done
: > "$dir/shared/ready"
read end"#;

/// The machines, until this is dropped.
struct Machines {
    dir: tempfile::TempDir,
    namespace: Child,
}

impl Machines {
    fn begin() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["roots", "shared/tmp", "local"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        for host in HOSTS {
            let root = dir.path().join("roots").join(host).display().to_string();
            // Modules that run a shell run this one, in the chroot.
            let text = format!(
                "#!/bin/sh\n[ -d {root} ] || exec /bin/sh \"$@\"\nexec env NVML_SIM_STATE=/sim/state chroot {root} /bin/sh \"$@\"\n"
            );
            write_program(&dir.path().join(format!("shell-{host}")), &text);
        }
        let mut begin = Command::new("unshare");
        begin
            .args(["-m", "--", "sh", "-c", BEGIN, "begin"])
            .arg(dir.path())
            .args(HOSTS)
            .stdin(Stdio::piped());
        let machines = Self { namespace: begin.spawn().unwrap(), dir };
        wait_for("the machines", PATIENCE, || {
            if machines.dir.path().join("shared/ready").exists() { Ok(()) } else { Err("none".to_owned()) }
        })
        .unwrap();
        HOSTS.iter().for_each(|host| machines.prepare(host));
        machines
    }

    /// A path of a machine, as this process sees it.
    fn at(&self, host: &str, path: &str) -> PathBuf {
        let root = self.dir.path().join("roots").join(host);
        let process = PathBuf::from(format!("/proc/{}/root", self.namespace.id()));
        process.join(root.strip_prefix("/").unwrap()).join(path)
    }

    fn read(&self, host: &str, path: &str) -> String {
        fs::read_to_string(self.at(host, path)).unwrap_or_default()
    }

    fn prepare(&self, host: &str) {
        let stand_in = STAND_IN.replace("SENT", &self.dir.path().join("shared/sent").display().to_string());
        for name in ["systemctl", "scontrol", "sinfo", "squeue"] {
            write_program(&self.at(host, "usr/local/bin").join(name), &stand_in);
        }
        // dpkg would have it read every manual page of this machine.
        write_program(&self.at(host, "usr/bin/mandb"), "#!/bin/sh\n");
        let _ = fs::remove_dir_all(self.at(host, "etc/slurm"));
        let etc = if host == "ctl" { "etc/slurm" } else { "run/slurm/conf" };
        fs::create_dir_all(self.at(host, "etc/slurm")).unwrap();
        fs::create_dir_all(self.at(host, etc)).unwrap();
        fs::write(self.at(host, etc).join("slurm.conf"), SLURM_CONF).unwrap();
        let active = ["tessera-exporter\n", "", "sackd\n"];
        let active = HOSTS.iter().zip(active).find(|(name, _)| **name == host).unwrap().1;
        fs::write(self.at(host, "active"), active).unwrap();
        if host == "login1" {
            return;
        }
        if host == "ctl" {
            let reason = "gres/shard count reported lower than configured (0 < 80)\n";
            return fs::write(self.at(host, "reason"), reason).unwrap();
        }
        fs::create_dir_all(self.at(host, "sim")).unwrap();
        fs::write(self.at(host, "sim/node.toml"), GPUS).unwrap();
        let built = programs(Profile::Debug);
        fs::copy(built.join("libnvidia_ml.so"), self.at(host, "usr/lib/libnvidia-ml.so.1")).unwrap();
        fs::copy(built.join("nvml-sim"), self.at(host, "sim/nvml-sim")).unwrap();
        let mut create = self.inside();
        create.arg(self.dir.path().join(format!("shell-{host}")));
        create.args(["-c", "/sim/nvml-sim create --node /sim/node.toml --state /sim/state --root /sim"]);
        run(&mut create).unwrap().ok().unwrap();
    }

    /// A command where the machines are.
    fn inside(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.namespace.id())).arg("--");
        command
    }

    /// Runs a playbook; returns its last lines, one for each machine.
    fn play(&self, playbook: &str, more: &[&str]) -> String {
        let dir = self.dir.path().display();
        let inventory = format!(
            "[slurmctld]\nctl ansible_shell_executable={dir}/shell-ctl\n\
             [gpu_nodes]\nn1 ansible_shell_executable={dir}/shell-n1\n\
             [login]\nlogin1 ansible_shell_executable={dir}/shell-login1\n\
             [all:vars]\nansible_connection=local\nansible_python_interpreter=/usr/bin/python3\n\
             ansible_remote_tmp={dir}/shared/tmp\ntessera_wait_min=0\n\
             tessera_kinds=[{{\"host\": \"n1\", \"nodes\": \"n1\"}}]\n"
        );
        fs::write(self.dir.path().join("inventory"), inventory).unwrap();
        let mut play = self.inside();
        play.args(["/usr/bin/ansible-playbook", "--inventory"]).arg(self.dir.path().join("inventory"));
        play.arg(workspace().join("contrib/ansible").join(playbook)).args(more);
        play.env("ANSIBLE_LOCAL_TEMP", self.dir.path().join("local")).env("ANSIBLE_PIPELINING", "1");
        play.env("ANSIBLE_NOCOLOR", "1").env("ANSIBLE_NOCOWS", "1");
        let done = run(&mut play).unwrap();
        let (tasks, recap) = done.stdout.split_once("PLAY RECAP").unwrap_or_default();
        assert_eq!(done.code, Some(0), "{tasks}{recap}{}", done.stderr);
        recap.lines().skip(1).collect::<Vec<_>>().join("\n")
    }

    fn calls(&self, host: &str) -> String {
        let calls = self.read(host, "calls");
        fs::write(self.at(host, "calls"), "").unwrap();
        calls
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        drop(self.namespace.stdin.take());
        let _ = self.namespace.wait();
    }
}

fn write_program(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_role_installs_sets_up_and_removes() {
    let out = tempfile::tempdir_in(target_dir()).unwrap();
    let kinds =
        ["deb", "tar"].map(|format| super::package(format, "0.1.0", out.path()).display().to_string());
    let machines = Machines::begin();
    let packages = format!(
        "tessera_package={{{{ '{}' if inventory_hostname == 'ctl' else '{}' }}}}",
        kinds[0], kinds[1]
    );
    let install = ["-e", &packages];

    machines.play("site.yml", &install);
    let slurm_conf = machines.read("ctl", "etc/slurm/slurm.conf");
    assert!(slurm_conf.contains("\nNodeName=n1 Gres=gpu:2,shard:80\n"), "{slurm_conf}");
    assert_eq!(machines.read("n1", "etc/slurm/tessera.toml"), machines.read("ctl", "etc/slurm/tessera.toml"));
    assert!(machines.read("n1", "etc/slurm/tessera.toml").contains("\nnames = \"n1\"\n"));
    assert!(!machines.at("n1", "etc/slurm/slurm.conf").exists());
    insta::assert_snapshot!(machines.calls("ctl"), @r"
    systemctl show slurmctld
    systemctl restart slurmctld
    systemctl restart tessera-exporter
    sinfo --noheader --nodes n1 --format %E
    scontrol update nodename=n1 state=drain reason=Tessera is installed
    squeue --noheader --nodelist n1 --states running,suspended,completing
    sinfo --noheader --nodes n1 --format %E
    scontrol update nodename=n1 state=resume
    ");
    assert_eq!(machines.calls("n1"), "systemctl show slurmd\nsystemctl restart slurmd\n");
    assert_eq!(machines.calls("login1"), "systemctl restart sackd\n");
    assert!(machines.read("login1", "run/slurm/conf/plugstack.conf").contains("spank_tessera.so"));

    // With --check, the role still asks setup what is missing: nothing.
    let again = machines.play("site.yml", &[&install[..], &["--check"]].concat());
    assert_eq!(again.matches("changed=0").count(), HOSTS.len(), "{again}");
    assert_eq!(machines.calls("n1"), "");

    // A machine that lacks its files restarts nothing on the others.
    fs::remove_file(machines.at("login1", "etc/slurm/tessera.toml")).unwrap();
    machines.play("site.yml", &install);
    let toml = |host| machines.read(host, "etc/slurm/tessera.toml");
    assert_eq!(toml("login1"), toml("ctl"));
    assert_eq!(HOSTS.map(|host| machines.calls(host)), ["", "", "systemctl restart sackd\n"]);

    machines.play("remove.yml", &[]);
    assert_eq!(machines.read("ctl", "etc/slurm/slurm.conf"), SLURM_CONF);
    for path in ["usr/bin/tessera", "usr/lib/tessera", "etc/slurm/tessera.toml", "var/cache/tessera"] {
        HOSTS.iter().for_each(|host| assert!(!machines.at(host, path).exists(), "{host}: {path}"));
    }
    let calls = HOSTS.map(|host| machines.calls(host));
    assert_eq!(calls.each_ref().map(|calls| calls.matches("systemctl restart").count()), [4, 2, 2]);
    assert!(
        calls[0].contains("systemctl restart tessera-exporter\nscontrol reconfigure\nsystemctl disable"),
        "{}",
        calls[0]
    );
}
