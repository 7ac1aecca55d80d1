//! A large site in a directory: its tessera.toml, and scripts in the places of Slurm's commands.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use lab::paths::target_dir;

use crate::command::{TaskError, at};

/// The columns that `tessera` asks squeue for.
#[path = "../../../../cli/src/slurm/squeue/columns.rs"]
#[cfg_attr(test, allow(dead_code, reason = "its helper for other tests"))]
mod columns;

pub(super) const NODES: u32 = 1000;
/// The first of the jobs that wait.
pub(super) const PENDING: u32 = 200_000;
/// Jobs that wait.
const WAITING: u32 = 1000;

/// States of a GPU; `J` stands for the next job.
const GPUS: [&str; 10] = [
    "free",
    "free",
    "free",
    "whole[J]",
    "whole[J]",
    "mps[J:3815M/25%,J:3815M/25%]",
    "mig[3g.20gb@0:J,3g.20gb@4:idle]",
    "mig[2g.10gb@0:J,2g.10gb@2:J,3g.20gb@4:J]",
    "mig[4g.20gb@0:J,2g.10gb@4:idle,1g.5gb@6:J]",
    "mig[1g.5gb@0:J,1g.5gb@1:idle,2g.10gb@2:J,3g.20gb@4:J]",
];

/// The layouts of the nodes, and the number of their jobs, which count from 1. One node in five is free.
fn layouts() -> (Vec<String>, u32) {
    let (mut random, mut jobs) = (1_u64, 0);
    // Knuth's MMIX generator: the same site in each run.
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let node = |_| {
        let free = next() % 5 == 0;
        let mut line = "tessera".to_owned();
        for gpu in 0..8 {
            let kind = if free { 0 } else { next() % GPUS.len() as u64 };
            let _ = write!(line, " gpu{gpu}=");
            let text = usize::try_from(kind).ok().and_then(|kind| GPUS.get(kind)).unwrap_or(&"free");
            for (i, part) in text.split('J').enumerate() {
                if i > 0 {
                    jobs += 1;
                    let _ = write!(line, "job{jobs}");
                }
                line.push_str(part);
            }
        }
        line
    };
    ((0..NODES).map(node).collect(), jobs)
}

fn job(id: u32, state: &str, asks: &str) -> String {
    let user = format!("user{}", id % 50);
    let (id, asks) = (id.to_string(), format!("tessera: asks v1 {asks}"));
    let pending = state == "PENDING";
    let value = |column: &str| match column {
        "JobID" | "ArrayJobID" => id.as_str(),
        "UserName" => &user,
        "Partition" => "gpu",
        "PriorityLong" => "50",
        "State" => state,
        "Reason" if pending => "Resources",
        "NumNodes" => "1",
        "SubmitTime" => "1700000000",
        "StartTime" if !pending => "1700000600",
        "EndTime" if !pending => "4000000000",
        "TimeLimit" => "1:00:00",
        "admin_comment" => &asks,
        _ => "N/A",
    };
    columns::COLUMNS.iter().map(|(column, width)| format!("{:<width$}", value(column))).collect::<String>()
        + "\n"
}

/// Writes the site.
pub(super) fn write(dir: &Path) -> Result<(), TaskError> {
    let bin = dir.join("bin");
    at(&bin, fs::create_dir_all(&bin))?;
    let (layouts, running) = layouts();
    let (mut nodes, mut states, mut jobs, mut owners) = Default::default();
    for (i, line) in layouts.iter().enumerate() {
        let texts: (&mut String, &mut String) = (&mut nodes, &mut states);
        let _ = write!(
            texts.0,
            "NodeName=n{i} Arch=x86_64 CoresPerSocket=16\n   Gres=gpu:8,shard:320\n   Extra={line}\n\n"
        );
        let _ = writeln!(texts.1, "n{i} mixed gpu");
    }
    let ids = (1..=running).map(|id| (id, "RUNNING", "iso=mig:3g.20gb"));
    let waiting = (PENDING..PENDING + WAITING).map(|id| (id, "PENDING", "iso=whole gpus=8"));
    for (id, state, asks) in ids.chain(waiting) {
        let texts: (&mut String, &mut String) = (&mut jobs, &mut owners);
        texts.0.push_str(&job(id, state, asks));
        let _ = writeln!(texts.1, "{id:<14}{:<14}", 1000 + id % 50);
    }
    let tres = format!("{PENDING:<14}{:<512}{:<512}{:<512}{:<512}\n", "N/A", "gres:gpu:8", "", "");
    let site = format!(
        "[[nodes]]\nnames = \"n[0-{}]\"\ngpu = \"a100-40gb\"\ncount = 8\nmig = \"dynamic\"\ninterconnect = \"dgx-v\"\n",
        NODES - 1
    );
    for (name, text) in [
        ("nodes", nodes),
        ("states", states),
        ("jobs", jobs),
        ("owners", owners),
        ("tres", tres),
        ("tessera.toml", site),
    ] {
        let path = dir.join(name);
        at(&path, fs::write(&path, text))?;
    }
    for (name, text) in [
        ("scontrol", "cat nodes"),
        ("sinfo", "cat states"),
        (
            "squeue",
            "case \"$*\" in *admin_comment*) cat jobs ;; *tres-per-task*) cat tres ;; *UserID*) cat owners ;; *%14A*) ;; *) cat jobs ;; esac",
        ),
    ] {
        let path = bin.join(name);
        at(&path, fs::write(&path, format!("#!/bin/sh\n{text}\n")))?;
        at(&path, fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))?;
    }
    Ok(())
}

/// A command that finds the scripts.
pub(super) fn command(dir: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).env("PATH", format!("{}:/usr/bin:/bin", dir.join("bin").display()));
    command.env("TESSERA_CONF", dir.join("tessera.toml")).env_remove("SLURM_CONF");
    command
}

/// The release build of `tessera`.
pub(super) fn tessera(dir: &Path) -> Command {
    command(dir, &target_dir().join("release/tessera").display().to_string())
}
