//! What Tessera must refuse: bad options, impossible requests, forged placements.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK, with};
use lab::User;

/// Options, and what the refusal must name.
const BAD: [(&[&str], &[&str]); 15] = [
    (&["--gpu-isolation=vmm"], &["--gpu-isolation", "vmm", "mig"]),
    (&["--gpu-isolation=mig:9g.99gb"], &["--gpu-isolation", "9g.99gb"]),
    (&["--gpu-isolation=mig:1g.6gb"], &["1g.6gb"]),
    (&["--gpu-mem=0"], &["--gpu-mem", "0"]),
    (&["--gpu-mem=-1G"], &["--gpu-mem", "-1G"]),
    (&["--gpu-mem=10X"], &["--gpu-mem", "10X"]),
    (&["--gpu-mem=1000G"], &["--gpu-mem"]),
    (&["--gpu-isolation=mig", "--gpu-instances=0"], &["--gpu-instances", "0"]),
    (&["--gpu-isolation=mps", "--gpu-threads=101"], &["--gpu-threads", "101"]),
    (&["--gpu-isolation=mps", "--gpu-threads=0"], &["--gpu-threads", "0"]),
    (&["--gpu-instances=2"], &["--gpu-instances"]),
    (&["--gpu-isolation=whole", "--gpu-instances=2"], &["--gpu-instances"]),
    (&["--gpu-isolation=mig", "--gres=gpu:2"], &["gres"]),
    (&["--gpu-isolation=mps", "--gres=shard:2"], &["gres"]),
    (&["--gpu-isolation=mig:7g.40gb", "--gpu-instances=9", "-w", "n1"], &["7g.40gb"]),
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
        gcc.arg("-I").arg(cluster.slurm_source()).args(["-shared", "-fPIC", "-o"]).arg(&plugin).arg(&source);
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
