//! Asks slurmctld which GPUs it gave a job that has several types of them on one node: its prolog's environment names those of the
//! last type only [22.05 to 26.05 `gres_common.c`, `env_array_overwrite`].
//!
//! Only `scontrol show job -d` says it. The text also has what users write, line ends included, but it always has Slurm's own line for each
//! node of a running job: a second one for this node is forged, and then nothing is believed.

use geometry::GpuIndex;
use site_config::hostlist::{MOST_NAMES, expand_at_most};

use crate::squeue::RunCommand;

/// Most bytes of an answer that is believed: a longer one may be cut off, and a job's name could push Slurm's own line out.
const MOST: usize = 1 << 20;
/// No node has more GPUs.
const MOST_GPUS: usize = 64;

/// Returns the GPUs of a job on `node`, by Slurm's numbers, ascending. `id` names one job or one task of an array.
///
/// # Errors
///
/// slurmctld cannot be asked, or its answer does not say it.
pub(crate) fn ask(id: &str, node: &str, run: RunCommand<'_>) -> Result<Vec<GpuIndex>, String> {
    let answer = run("scontrol", ["show", "job", "-d", id].map(str::to_owned).to_vec())?;
    read(&String::from_utf8_lossy(&answer), node)
}

fn read(answer: &str, node: &str) -> Result<Vec<GpuIndex>, String> {
    if answer.len() > MOST {
        return Err("scontrol's answer is too long".to_owned());
    }
    let (mut own, mut left) = (None, MOST_NAMES);
    for (nodes, gres) in answer.lines().filter_map(nodes_and_gres) {
        let names = expand_at_most(nodes, left).map_err(|why| format!("a list of nodes {why}"))?;
        left -= names.len();
        if names.iter().any(|name| name == node) && own.replace(gres).is_some() {
            return Err(format!("scontrol shows its GRES on {node} twice"));
        }
    }
    let gres = own.ok_or_else(|| format!("scontrol shows no GRES of it on {node}"))?;
    gpus(gres).ok_or_else(|| format!("scontrol shows GRES={gres}"))
}

/// Splits a line like `Nodes=n[1-2] CPU_IDs=0 Mem=500 GRES=…`.
fn nodes_and_gres(line: &str) -> Option<(&str, &str)> {
    let (nodes, rest) = line.trim_start().strip_prefix("Nodes=")?.split_once(" CPU_IDs=")?;
    Some((nodes, rest.split_once(" GRES=").map_or("", |(_, gres)| gres.trim_end())))
}

/// Reads `gpu:a100:1(IDX:0),gpu:a30:2(IDX:2-3),nic:1`.
fn gpus(gres: &str) -> Option<Vec<GpuIndex>> {
    let mut all = Vec::new();
    for part in gres.split("gpu:").skip(1) {
        let (_, list) = part.split_once("(IDX:")?;
        for range in list.split_once(')')?.0.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            all.extend((first.parse().ok()?..=last.parse::<u16>().ok()?).take(MOST_GPUS).map(GpuIndex));
        }
    }
    all.sort_unstable();
    (1..=MOST_GPUS).contains(&all.len()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "JobId=12 JobName=x\n   JOB_GRES=gpu:a100:4,gpu:a30:3\n     \
        Nodes=n[1-2,7] CPU_IDs=0 Mem=500 GRES=gpu:a100:1(IDX:0),gpu:a30:2(IDX:2-3)\n     \
        Nodes=n3 CPU_IDs=0-1 Mem=500 GRES=gpu:a100:2(IDX:0,3),nic:1(IDX:0)\n     \
        Nodes=n4 CPU_IDs=0 Mem=500 GRES=\n   MinCPUsNode=1\n";

    fn on(answer: &str, node: &str) -> Result<Vec<u16>, String> {
        read(answer, node).map(|gpus| gpus.iter().map(|gpu| gpu.0).collect())
    }

    #[test]
    fn slurms_own_line_is_read() {
        assert_eq!(on(ANSWER, "n2"), Ok(vec![0, 2, 3]));
        assert_eq!(on(ANSWER, "n3"), Ok(vec![0, 3]));
        assert!(on(ANSWER, "n4").unwrap_err().contains("shows GRES="));
        assert!(on(ANSWER, "n5").unwrap_err().contains("no GRES of it on n5"));
        assert!(on("Nodes=n1 CPU_IDs=0 Mem=1 GRES=gpu:a:1(CNT:1)", "n1").is_err());
    }

    #[test]
    fn a_line_in_the_jobs_name_is_not_believed() {
        let forged = ANSWER.replace("=x", "=x\n     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:a100:1(IDX:1)");
        assert!(on(&forged, "n1").unwrap_err().contains("twice"));
        assert_eq!(on(&forged, "n3"), Ok(vec![0, 3]));
        let pushed_out = forged.replace("=x", &format!("={}", "x".repeat(MOST)));
        assert!(on(&pushed_out[..MOST + 1], "n1").unwrap_err().contains("too long"));
        let many = "Nodes=x[1-60000] CPU_IDs=0 Mem=0 GRES=\n".repeat(20_000);
        assert!(on(&many, "n1").unwrap_err().contains("stands for more than"), "each would take its time");
        assert!(on(&ANSWER.replace("n[1-2,7]", "n[1-2,7"), "n3").is_err(), "the node's own could be any");
    }

    proptest::proptest! {
        #[test]
        fn no_answer_panics(gres in ".*") {
            let _ = on(&gres, "n1");
            let _ = on(&format!("Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:a:1(IDX:{gres})"), "n1");
        }
    }
}
