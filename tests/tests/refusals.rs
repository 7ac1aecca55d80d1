//! What Tessera must refuse: bad options, impossible requests, forged placements.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use common::{LOOK, with};
use lab::command::{PATIENCE, wait_for};
use lab::{Cluster, Daemon, User};

/// Options, and what the refusal must name.
const BAD: [(&[&str], &[&str]); 28] = [
    (&["--gpu-isolation=vmm"], &["--gpu-isolation", "vmm", "mig"]),
    (&["--gpu-isolation=mig:9g.99gb"], &["--gpu-isolation", "9g.99gb"]),
    (&["--gpu-isolation=mig:1g.6gb"], &["1g.6gb"]),
    (&["--gpu-mem=0"], &["--gpu-mem", "0"]),
    (&["--gpu-mem=-1G"], &["--gpu-mem", "-1G"]),
    (&["--gpu-mem=10X"], &["--gpu-mem", "10X"]),
    (&["--gpu-mem=10"], &["--gpu-mem=10", "no unit", "10G"]),
    (&["--gpu-power=2000"], &["--gpu-power=2000", "1400"]),
    (&["--gpu-mem=1000G"], &["--gpu-mem"]),
    (&["--gpu-isolation=mig", "--gpu-instances=0"], &["--gpu-instances", "0"]),
    (&["--gpu-isolation=mps", "--gpu-sms=101"], &["--gpu-sms", "101"]),
    (&["--gpu-isolation=mps", "--gpu-sms=0"], &["--gpu-sms", "0"]),
    (&["--gpu-instances=2"], &["--gpu-instances"]),
    (&["--gpu-isolation=whole", "--gpu-instances=2"], &["--gpu-instances"]),
    (&["--gpu-isolation=mig", "--gres=gpu:2"], &["gres"]),
    (&["--gpu-isolation=mps", "--gres=shard:2"], &["gres"]),
    (&["--gpu-isolation=mig:7g.40gb", "--gpu-instances=9", "-w", "n1"], &["7g.40gb"]),
    // Words of static MIG, and of Tessera before 0.1.
    (&["--gpu-isolation=MIG"], &["did you mean mig?"]),
    (&["--gpu-isolation=1g.5gb"], &["did you mean mig:1g.5gb?"]),
    (&["--gpu-isolation=mig:1g.5g"], &["did you mean 1g.5gb?"]),
    (&["--gpu-isolation=none"], &["is now slurm", "mps"]),
    (&["--gpu-isolation=mig:4c.7g.40gb", "--gpu-mem=9G"], &["is now mig-shared:4c.7g.40gb"]),
    (&["--gpu-isolation=mps", "--gpu-threads=101"], &["--gpu-threads=101"]),
    (&["--gpus-per-node=2", "--gpu-wait=25:20:00"], &["is now 25GB/s,20:00"]),
    // Slurm refuses these, and Tessera says why.
    (&["--gpus-per-node=9"], &["gpu:9: no node that this job may use has more than"]),
    (&["--gres=gpu:A100:1"], &["type A100; did you mean a100?"]),
    (&["--gres=gpu:99"], &["--gres=gpu:99: no node that this job may use has more than"]),
    (&["--gres=gpu:1g.5gb:1"], &["type 1g.5gb; a MIG instance is --gpu-isolation=mig:1g.5gb"]),
];

#[test]
fn bad_options_are_refused_at_submission() {
    with(|cluster| {
        let mut wrong = Vec::new();
        for (options, words) in BAD {
            let done = cluster.try_sbatch(User::Alice, options, LOOK).unwrap();
            let missing: Vec<_> = words.iter().filter(|word| !done.stderr.contains(**word)).collect();
            if done.code == Some(0) || !missing.is_empty() {
                let answer = if done.code == Some(0) { &done.stdout } else { &done.stderr };
                wrong.push(format!("{options:?}: exit {:?}, not named {missing:?}: {answer}", done.code));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        // slurmctld takes no longer list either, but it looks only after the plugin.
        let list = "gpu:1,".repeat(200);
        let said = cluster.try_sbatch(User::Alice, &["--gres", &list], LOOK).unwrap().refused().unwrap();
        assert!(said.contains("its tres_per_node has more than 1024 bytes; shorten it"), "{said}");
    });
}

#[test]
fn a_profile_no_node_of_the_site_has_is_refused_by_the_controller() {
    with(|cluster| {
        // A profile that exists, of an A30: no node here has one.
        let done = cluster.try_sbatch(User::Alice, &["--gpu-isolation=mig:4g.24gb"], LOOK).unwrap();
        let said = done.refused().unwrap();
        assert!(said.contains("4g.24gb"), "{said}");
    });
}

/// A client that sends a placement of its own making.
const FORGER: &str = r#"
#include <slurm/spank.h>
SPANK_PLUGIN(forger, 1)
int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	spank_job_control_setenv(sp, "TESSERA_PLACEMENT", "v1 job=1;n1=mig:0/7g.40gb@0", 1);
	return 0;
}
"#;

#[test]
fn a_forged_placement_is_ignored() {
    with(|cluster| {
        let dir = cluster.layout().jobs();
        let (source, plugin) = (dir.join("forger.c"), dir.join("forger.so"));
        std::fs::write(&source, FORGER).unwrap();
        let mut gcc = std::process::Command::new("gcc");
        gcc.arg("-I").arg(cluster.slurm_headers()).args(["-shared", "-fPIC", "-o"]).arg(&plugin).arg(&source);
        lab::command::run(&mut gcc).unwrap().ok().unwrap();
        let plugstack = std::fs::read_to_string(cluster.layout().etc("plugstack.conf")).unwrap();
        let forged_stack = dir.join("plugstack.conf");
        std::fs::write(&forged_stack, format!("required {}\n{plugstack}", plugin.display())).unwrap();
        let conf = std::fs::read_to_string(cluster.layout().etc("slurm.conf")).unwrap();
        let forged_conf = dir.join("slurm.conf");
        let lines = conf.lines().map(|line| match line.strip_prefix("PlugStackConfig=") {
            Some(_) => format!("PlugStackConfig={}", forged_stack.display()),
            None => line.to_owned(),
        });
        std::fs::write(&forged_conf, lines.collect::<Vec<_>>().join("\n") + "\n").unwrap();

        // With a request of ours, and as a job that asks for nothing.
        for options in [&["--gpu-isolation=mig:1g.5gb"][..], &[][..]] {
            let out = dir.join("forged.out");
            let _ = std::fs::remove_file(&out);
            let script = dir.join("forged.sh");
            std::fs::write(&script, format!("#!/bin/sh\n{LOOK}\n")).unwrap();
            let mut sbatch = cluster.command(User::Bob, "sbatch").unwrap();
            sbatch.env("SLURM_CONF", &forged_conf).args(["--wait", "-w", "n1"]).args(options);
            sbatch.arg(format!("--output={}", out.display())).arg(&script);
            lab::command::run(&mut sbatch).unwrap().ok().unwrap();
            let saw = std::fs::read_to_string(&out).unwrap();
            let wanted: &[&str] = if options.is_empty() { &[] } else { &["1g.5gb"] };
            assert_eq!(common::profiles(&saw), wanted, "{saw}");
        }
    });
}

#[test]
fn the_node_side_is_for_root() {
    with(|cluster| {
        let mut command = cluster.command_on("n1", User::Alice, "tessera").unwrap();
        let done = lab::command::run(command.args(["node", "reconcile"])).unwrap();
        let said = done.refused().unwrap();
        assert!(said.contains("root"), "{said}");
    });
}

/// `tessera exporter` as a user without rights, beside the cluster.
struct Exporter {
    child: Child,
    address: String,
}

impl Exporter {
    fn start(cluster: &Cluster) -> Self {
        let mut command = cluster.command(User::Bob, "tessera").unwrap();
        command.args(["exporter", "--listen", "127.0.0.1:0", "--every", "1s"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut first).unwrap();
        let address = first.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        Self { address: address.unwrap_or_else(|| panic!("{first}")).to_owned(), child }
    }

    /// The value of each metric, by its name and labels.
    fn metrics(&self) -> Result<HashMap<String, f64>, String> {
        let mut stream = TcpStream::connect(&self.address).map_err(|e| e.to_string())?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .map_err(|e| e.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|e| e.to_string())?;
        let value = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Ok(answer.lines().filter_map(value).collect())
    }

    /// The metrics once these have grown above what they were, each by at least so much.
    fn until(&self, before: &HashMap<String, f64>, grown: &[(&str, f64)]) -> HashMap<String, f64> {
        wait_for("decisions to be counted", PATIENCE, || {
            let now = self.metrics()?;
            let of = |all: &HashMap<String, f64>, name: &str| all.get(name).copied();
            let missing = grown.iter().find(|(name, n)| {
                of(&now, name).is_none_or(|value| value < of(before, name).unwrap_or_default() + n)
            });
            missing.map_or_else(|| Ok(now.clone()), |(name, _)| Err(format!("{name}: {:?}", of(&now, name))))
        })
        .unwrap()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn refused_and_started_jobs_are_counted_and_a_restarted_slurmctld_goes_on_counting() {
    with(|cluster| {
        let exporter = Exporter::start(cluster);
        let before = exporter.until(&HashMap::new(), &[("tessera_decisions_known", 1.0)]);
        cluster.try_sbatch(User::Alice, &["--gpu-isolation=mig:4g.24gb"], LOOK).unwrap().refused().unwrap();
        let refused = ("tessera_rejections_total{ask=\"submit\",reason=\"impossible\"}", 1.0);
        exporter.until(&before, &[refused]);
        cluster.complete(User::Alice, &["--gpu-isolation=mig:1g.5gb"], LOOK).unwrap();
        let started = [
            refused,
            ("tessera_decisions_total{ask=\"submit\",answer=\"yes\"}", 1.0),
            ("tessera_decisions_total{ask=\"run_now\",answer=\"yes\"}", 1.0),
            ("tessera_decision_seconds_count{ask=\"run_now\"}", 1.0),
            ("tessera_decision_seconds_count{ask=\"submit\"}", 2.0),
        ];
        let after = exporter.until(&before, &started);
        assert!(after["tessera_decision_seconds_sum{ask=\"run_now\"}"] > 0.0);

        // One that has to wait: all GPUs of its node are another job's.
        let whole = ["-w", "n2", "--gpu-isolation=whole", "--gpus-per-node=4"];
        let holder = cluster.sbatch(User::Alice, &whole, common::LOOK_AND_STAY).unwrap();
        common::looked(cluster, holder);
        let mig = ["-w", "n2", "--gpu-mem=5G", "--gpu-isolation=mig"];
        let waits = cluster.sbatch(User::Bob, &mig, LOOK).unwrap();
        exporter.until(&after, &[("tessera_rejections_total{ask=\"run_now\",reason=\"no_room\"}", 1.0)]);

        for job in [holder, waits] {
            cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
        }
        cluster.wait_idle().unwrap();
        cluster.stop(&Daemon::Slurmctld).unwrap();
        cluster.start(&Daemon::Slurmctld).unwrap();
        cluster.wait_ready(PATIENCE).unwrap();
        cluster.try_sbatch(User::Alice, &["--gpu-isolation=mig:4g.24gb"], LOOK).unwrap().refused().unwrap();
        exporter.until(&after, &[refused]);
    });
}
