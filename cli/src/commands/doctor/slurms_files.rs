//! Compares what slurm.conf and gres.conf on this machine say of a node with `tessera.toml` and with what slurmctld counts.

use std::collections::HashMap;

use site_config::SiteConfig;
use site_problems::{gres_in_slurm_conf, shards_in_gres_conf};
use slurm_files::{GpuOrder, Line, gpu_order, lines};

use super::answers::SlurmAnswers;
use super::counts::{count, counts_of};
use super::findings::Findings;
use crate::this_machine::{host, this_node};

/// The two files, as far as they can be read here.
pub(super) struct SlurmsFiles {
    /// Each node's `Gres=` in slurm.conf.
    gres_of: HashMap<String, String>,
    gres_conf: Option<String>,
    /// The lines of gres.conf without `NodeName=` are about this node alone; `None`: about every node.
    only: Option<String>,
}

impl SlurmsFiles {
    pub(super) fn read(slurm: &SlurmAnswers) -> Self {
        let gres_of = slurm.slurm_conf().map(|text| gres_in_slurm_conf(&text)).unwrap_or_default();
        let only = (!slurm.has_files_of_all(&host())).then(|| this_node().unwrap_or_default());
        Self { gres_of, gres_conf: slurm.gres_conf(), only }
    }

    /// The lines of gres.conf that are about a node. A site may have another file on each node, whose lines name none.
    fn gres_conf_for(&self, node: &str) -> Option<String> {
        let text = self.gres_conf.as_ref()?;
        if self.only.as_ref().is_none_or(|only| only == node) {
            return Some(text.clone());
        }
        // An include stays, so that the reader says that there is more.
        let counts = |line: &String| {
            Line::read(line).field("NodeName").is_some()
                || line.trim_start().to_ascii_lowercase().starts_with("include")
        };
        Some(lines(text).into_iter().filter(counts).collect::<Vec<_>>().join("\n"))
    }

    /// Reports each number of GPUs or shards of a node that is not that of `tessera.toml`.
    pub(super) fn check(
        &self,
        slurm: &SlurmAnswers,
        name: &str,
        config: &SiteConfig,
        findings: &mut Findings,
    ) {
        let Some(want) = counts_of(name, config) else { return };
        let counted = slurm.gres.get(name).map(String::as_str);
        for said in self.differences(name, want, counted) {
            findings.bad(format!("{name}: {said}"));
        }
    }

    /// Tells whether [`Self::check`] has told of this number already: slurmctld counts what slurm.conf says.
    pub(super) fn explain(&self, name: &str, kind: &str, counted: u32) -> bool {
        self.gres_of.get(name).is_some_and(|gres| count(gres, kind) == counted)
    }

    fn differences(&self, name: &str, want: [(&str, u32); 2], counted: Option<&str>) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(gres) = self.gres_of.get(name) {
            for (kind, want) in want {
                let has = count(gres, kind);
                if has != want {
                    found.push(format!(
                        "slurm.conf has {kind}:{has} in its Gres=, tessera.toml comes to {kind}:{want}: correct Gres=, restart \
                         slurmctld, then the node's slurmd"
                    ));
                } else if counted.is_some_and(|gres| count(gres, kind) != want) {
                    found.push(format!("slurm.conf has {kind}:{has}, as it should be: restart slurmctld, which has not read it"));
                }
            }
        }
        let Some(text) = &self.gres_conf_for(name) else { return found };
        let [(_, gpus), (_, shards)] = want;
        let files = match gpu_order(text, name) {
            Ok(GpuOrder::Files(files) | GpuOrder::IfDrivers(files, _)) => u32::try_from(files.len()).ok(),
            _ => None,
        };
        for (kind, has, want) in [("gpu", files, gpus), ("shard", shards_in_gres_conf(text, name), shards)] {
            if let Some(has) = has.filter(|has| *has != want) {
                found.push(format!(
                    "gres.conf comes to {kind}:{has}, tessera.toml to {kind}:{want}: correct gres.conf, then restart the node's slurmd"
                ));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(slurm_conf: &str, gres_conf: &str, counted: &str) -> String {
        let files = SlurmsFiles {
            gres_of: gres_in_slurm_conf(&format!("NodeName=n[1-2] Gres={slurm_conf}\n")),
            gres_conf: Some(format!("NodeName=n[1-2] Name=gpu File=/dev/nvidia[0-{gres_conf}\n")),
            only: None,
        };
        files.differences("n1", [("gpu", 8), ("shard", 320)], Some(counted)).join("\n")
    }

    const ALL: &str = "gpu:a100:8,shard:320";

    #[test]
    fn each_wrong_number_is_named_with_its_file() {
        assert_eq!(said(ALL, "7]\nName=shard Count=320", ALL), "");
        insta::assert_snapshot!(said("gpu:a100:8,shard:80", "7]\nName=shard Count=320", ALL), @"slurm.conf has shard:80 in its Gres=, tessera.toml comes to shard:320: correct Gres=, restart slurmctld, then the node's slurmd");
        insta::assert_snapshot!(said(ALL, "6]\nNodeName=n1 Name=shard Count=80", ALL), @r"
        gres.conf comes to gpu:7, tessera.toml to gpu:8: correct gres.conf, then restart the node's slurmd
        gres.conf comes to shard:80, tessera.toml to shard:320: correct gres.conf, then restart the node's slurmd
        ");
        insta::assert_snapshot!(said(ALL, "7]", "gpu:a100:8,shard:80"), @"slurm.conf has shard:320, as it should be: restart slurmctld, which has not read it");
    }

    #[test]
    fn files_that_say_nothing_of_a_node_say_nothing_wrong() {
        let files = SlurmsFiles {
            gres_of: gres_in_slurm_conf("Include x\n"),
            gres_conf: Some("AutoDetect=nvml\n".to_owned()),
            only: None,
        };
        assert!(files.differences("n1", [("gpu", 8), ("shard", 320)], None).is_empty());
    }

    #[test]
    fn lines_of_a_nodes_own_gres_conf_are_not_about_other_nodes() {
        let said = |only: Option<&str>, node: &str| {
            let gres_conf = "Name=gpu File=/dev/nvidia[0-3]\nNodeName=n3 Name=gpu File=/dev/nvidia[0-1]\n";
            let (gres_of, gres_conf) = (HashMap::new(), Some(gres_conf.to_owned()));
            let files = SlurmsFiles { gres_of, gres_conf, only: only.map(str::to_owned) };
            files.differences(node, [("gpu", 8), ("shard", 320)], None).len()
        };
        assert_eq!(["n1", "n2", "n3"].map(|node| said(Some("n1"), node)), [1, 0, 1]);
        assert_eq!(["n1", "n2", "n3"].map(|node| said(None, node)), [1, 1, 1], "slurmctld sends it to all");
    }
}
