//! Real jobs of a real Slurm, on a node where Tessera is a package: upgraded below them, and removed below them.

use std::fs;
use std::path::Path;

use lab::command::{Done, PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::{Cluster, Daemon, JobId, Slurm, User};
use slurm_releases::Release;

use crate::Root;

/// slurmctld looks for a place at once, and waits for a machine that stands still.
const SLURM: &str =
    "MessageTimeout=30\nKillWait=5\nSchedulerParameters=batch_sched_delay=0,sched_min_interval=0";
const NODE: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n";
const INSTANCE: &str = "--gpu-isolation=mig:2g.10gb";

/// The cluster. Each job goes on until the file that it looks for is there.
pub(crate) struct Live<'r> {
    root: &'r Root,
    cluster: Cluster,
    /// A job with an instance, which ends after the upgrade.
    upgraded: JobId,
    /// A job with a whole GPU, which ends after the removal.
    last: JobId,
    /// Ends behind the cluster.
    _dir: tempfile::TempDir,
}

/// A script that says which GPUs it sees, waits for the file, and lets a later step say the same.
fn until(file: &Path) -> String {
    format!(
        "echo first=$CUDA_VISIBLE_DEVICES\nwhile [ ! -e {} ]; do sleep 0.2; done\n\
         srun -n1 sh -c 'echo later=$CUDA_VISIBLE_DEVICES'",
        file.display()
    )
}

fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

impl<'r> Live<'r> {
    /// Starts Slurm in the root, and two jobs.
    pub(crate) fn begin(root: &'r Root, release: Release) -> Self {
        root.knows_the_test_users();
        // Not named after Tessera: the package looks for that name in Slurm's files.
        let dir = tempfile::Builder::new().prefix("packaged-").tempdir().unwrap();
        let guard = vec![env!("CARGO_BIN_EXE_xtask").to_owned(), "guard".to_owned()];
        let cluster = Cluster::builder()
            .dir(dir.path())
            .slurm(Slurm::from(release))
            .package_root(root.path())
            .templates(Templates::for_nodes(NODE).unwrap())
            .slurm_conf(SLURM)
            .guardian(guard)
            .start()
            .unwrap();
        let file = |name| cluster.layout().jobs().join(name);
        let upgraded = cluster.sbatch(User::Alice, &[INSTANCE], &until(&file("upgraded"))).unwrap();
        let last = cluster.sbatch(User::Bob, &["--gres=gpu:1"], &until(&file("removed"))).unwrap();
        let live = Self { root, cluster, upgraded, last, _dir: dir };
        assert!(live.first(upgraded).starts_with("MIG-"), "{}", live.cluster.output(upgraded));
        live.first(last);
        live
    }

    /// Returns what a job saw when it began.
    fn first(&self, job: JobId) -> String {
        wait_for("the job to see its GPUs", PATIENCE, || {
            let text = self.cluster.output(job);
            value(&text, "first")
                .map(str::to_owned)
                .ok_or_else(|| format!("{:?} {text}", self.cluster.job(job)))
        })
        .unwrap()
    }

    /// Lets a job end: its last step has what it had from the beginning.
    fn ends_well(&self, job: JobId, file: &str) {
        fs::write(self.cluster.layout().jobs().join(file), "").unwrap();
        let ended = self.cluster.wait_end(job).unwrap();
        let text = self.cluster.output(job);
        assert_eq!(ended.state(), "COMPLETED", "{text}\n{}", self.cluster.log_tails());
        assert_eq!(value(&text, "later"), value(&text, "first"), "{text}");
    }

    fn runs(&self, job: JobId) {
        assert_eq!(self.cluster.job(job).unwrap().state(), "RUNNING", "{}", self.cluster.log_tails());
    }

    fn restart(&mut self) {
        for daemon in [Daemon::Slurmctld, Daemon::Slurmd("n1".to_owned())] {
            self.cluster.stop(&daemon).unwrap();
            self.cluster.start(&daemon).unwrap();
        }
        self.cluster.wait_ready(PATIENCE).unwrap();
    }

    /// The new package is there: the steps of docs/upgrade.md from the third one on. The running jobs keep what they have; the
    /// next job has what they have not.
    pub(crate) fn is_upgraded(&mut self) {
        let slurmctld = self.cluster.process(&Daemon::Slurmctld).unwrap().pid;
        let mapped = || fs::read_to_string(format!("/proc/{slurmctld}/maps")).unwrap();
        let kept = |maps: &str| maps.lines().any(|line| line.ends_with("select_cons_tres.so (deleted)"));
        assert!(kept(&mapped()), "slurmctld's plugin was written over: {}", mapped());
        self.restart();
        self.runs(self.upgraded);
        self.runs(self.last);
        let next = self.cluster.complete(User::Bob, &[INSTANCE], "echo first=$CUDA_VISIBLE_DEVICES").unwrap();
        let first = self.first(self.upgraded);
        assert!(value(&next, "first").is_some_and(|now| now.starts_with("MIG-") && now != first), "{next}");
        self.ends_well(self.upgraded, "upgraded");
    }

    /// Changes a file of Slurm's. The package's scripts find the same in the root's `/etc/slurm`.
    fn edit(&self, name: &str, change: impl Fn(String) -> String) {
        let path = self.cluster.layout().etc(name);
        let text = change(fs::read_to_string(&path).unwrap());
        fs::create_dir_all(self.root.at("etc/slurm")).unwrap();
        fs::write(self.root.at("etc/slurm").join(name), &text).unwrap();
        fs::write(&path, text).unwrap();
    }

    fn hand_over(&self) -> Done {
        let mut command = self.cluster.command_on("n1", User::Root, "tessera").unwrap();
        run(command.args(["node", "hand-over"])).unwrap()
    }

    /// The steps of docs/uninstall.md, while a job has an instance and another a whole GPU. `remove` is refused until Slurm's
    /// files name Tessera no more.
    pub(crate) fn is_removed(&mut self, remove: impl Fn() -> Done) {
        let wait = self.cluster.layout().jobs().join("handed-over");
        let holder = self.cluster.sbatch(User::Alice, &[INSTANCE], &until(&wait)).unwrap();
        self.first(holder);
        let refused_for = |file: &str| {
            let refused = remove();
            assert_ne!(refused.code, Some(0));
            let said = format!("{}{}", refused.stdout, refused.stderr);
            assert!(said.contains(&format!("/etc/slurm/{file} still names Tessera")), "{said}");
            assert!(self.root.at("usr/lib/tessera/select_cons_tres.so").is_file());
        };
        // 1. Nobody can ask for anything new.
        self.edit("slurm.conf", |text| text);
        self.edit("plugstack.conf", |text| {
            text.replace(
                "required spank_tessera.so",
                "required /usr/lib/tessera/spank_tessera.so options=off",
            )
        });
        refused_for("slurm.conf");
        // 3. Slurm alone places jobs.
        self.edit("slurm.conf", |text| {
            text.replace("PluginDir=/usr/lib/tessera:", "PluginDir=")
                .replace("JobSubmitPlugins=tessera\n", "")
        });
        self.restart();
        self.runs(self.last);
        // 4. The node is left to Slurm only when nobody has a part of a GPU.
        let busy = self.hand_over().refused().unwrap();
        assert!(busy.contains(&format!("jobs have instances or shares on n1: {holder}")), "{busy}");
        self.ends_well(holder, "handed-over");
        wait_for("n1 to be left to Slurm", PATIENCE, || {
            let done = self.hand_over();
            if done.code == Some(0) { Ok(()) } else { Err(format!("{}{}", done.stdout, done.stderr)) }
        })
        .unwrap();
        // 5. Nothing of Tessera is left.
        self.edit("slurm.conf", |text| {
            let kept = text.lines().filter(|line| !line.starts_with("HealthCheck"));
            let kept: String = kept.map(|line| format!("{line}\n")).collect();
            kept.replace("GresTypes=gpu,shard", "GresTypes=gpu").replace(",shard:80", "")
        });
        refused_for("plugstack.conf");
        self.edit("plugstack.conf", |_| String::new());
        let gres_conf = self.cluster.layout().etc("gres.conf");
        let text = fs::read_to_string(&gres_conf).unwrap();
        let kept = text.lines().filter(|line| !line.contains("Name=shard"));
        fs::write(&gres_conf, kept.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        self.restart();
        remove().ok().unwrap();
        self.runs(self.last);
        let plain = self.cluster.complete(User::Alice, &["--gres=gpu:1"], "nvidia-smi -L").unwrap();
        assert!(plain.starts_with("GPU 0: "), "{plain}");
        fs::write(self.cluster.layout().jobs().join("removed"), "").unwrap();
        let ended = self.cluster.wait_end(self.last).unwrap();
        assert_eq!(ended.state(), "COMPLETED", "{}", self.cluster.output(self.last));
        // Debian has a plugstack.conf of its own there.
        fs::remove_file(self.root.at("etc/slurm/slurm.conf")).unwrap();
    }
}
