//! Jobs that carry large environments for SPANK plugins: they concern nobody else.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK, with};
use lab::command::{Done, run};
use lab::{Cluster, User};

/// A user's own SPANK plugin. Its arguments: how many variables, and how long the value of each is.
const FILLER: &str = r#"
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
SPANK_PLUGIN(filler, 1)
int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	int n = atoi(av[0]), length = atoi(av[1]);
	char *value = calloc(1, length + 1), name[32];
	memset(value, 'x', length);
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "FILL%d", i);
		spank_job_control_setenv(sp, name, value, 1);
	}
	return 0;
}
"#;

/// Submits a job as Bob with so many variables of this length, by his own slurm.conf.
fn submit(cluster: &Cluster, (variables, length): (u32, u32), options: &[&str]) -> Done {
    let dir = cluster.layout().jobs();
    let (source, plugin) = (dir.join("filler.c"), dir.join("filler.so"));
    if !plugin.exists() {
        std::fs::write(&source, FILLER).unwrap();
        let mut gcc = std::process::Command::new("gcc");
        gcc.arg("-I").arg(cluster.slurm_headers()).args(["-shared", "-fPIC", "-o"]).arg(&plugin).arg(&source);
        run(&mut gcc).unwrap().ok().unwrap();
    }
    let plugstack = std::fs::read_to_string(cluster.layout().etc("plugstack.conf")).unwrap();
    let stack = dir.join("filled-plugstack.conf");
    let filler = format!("required {} {variables} {length}\n", plugin.display());
    std::fs::write(&stack, format!("{filler}{plugstack}")).unwrap();
    let conf = std::fs::read_to_string(cluster.layout().etc("slurm.conf")).unwrap();
    let own = dir.join("filled-slurm.conf");
    let lines = conf.lines().map(|line| match line.strip_prefix("PlugStackConfig=") {
        Some(_) => format!("PlugStackConfig={}", stack.display()),
        None => line.to_owned(),
    });
    std::fs::write(&own, lines.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    let script = dir.join("filled.sh");
    std::fs::write(&script, format!("#!/bin/sh\n{LOOK}\n")).unwrap();
    let mut sbatch = cluster.command(User::Bob, "sbatch").unwrap();
    sbatch.env("SLURM_CONF", &own).args(["--wait", "--output=/dev/null"]).args(options).arg(&script);
    run(&mut sbatch).unwrap()
}

#[test]
fn a_job_with_a_large_environment_is_refused_and_placement_goes_on() {
    with(|cluster| {
        for (filled, limit) in [
            ((300, 1), "variables for SPANK plugins; at most 256 are accepted"),
            ((1, 140_000), "variable FILL0 for SPANK plugins has more than 32768 bytes"),
            ((200, 2_000), "variables for SPANK plugins have more than 131072 bytes together"),
        ] {
            // A job that asks Tessera for nothing has the same prolog.
            for options in [&[][..], &["--gpu-isolation=mig:1g.5gb"][..]] {
                let said = submit(cluster, filled, options).refused().unwrap();
                assert!(said.contains(limit), "{filled:?} {options:?}: {said}");
            }
        }
        submit(cluster, (200, 500), &["--gpu-isolation=mig:1g.5gb"]).ok().unwrap();
        let states = cluster.run(User::Root, "sinfo", &["-h", "-N", "-o", "%T"]).unwrap().ok().unwrap();
        assert!(!states.contains("drain") && !states.contains("down"), "{states}");
        let job = cluster.complete(User::Alice, &["--gpu-isolation=mig:1g.5gb"], LOOK).unwrap();
        assert_eq!(common::profiles(&job), ["1g.5gb"]);
    });
}
