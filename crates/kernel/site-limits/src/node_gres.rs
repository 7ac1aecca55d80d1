//! Slurm's counts of a node's GPUs, and whether Tessera leaves the node to Slurm alone, because they are something else.

/// Counts of a node's GPUs in Slurm's configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeGres {
    /// Number of GPUs in `slurm.conf`; `None`: it mentions none.
    pub gpus: Option<u64>,
    /// GPUs or shards are not consumed by jobs: any number of them gets the same.
    pub no_consume: bool,
    /// Has `gres/mps`, by which Slurm gives jobs parts of GPUs that nobody here hears of.
    pub mps: bool,
}

impl NodeGres {
    /// Reads a node's `Gres=`, such as `gpu:a100:8,shard:320`, in `slurm.conf` or as scontrol shows it: with the sockets of
    /// each, `gpu:a100:8(S:0,1)`.
    #[must_use]
    pub fn of_gres(text: &str) -> Self {
        let mut counted = Self::default();
        for entry in without_sockets(text).split(',') {
            let mut parts = entry.trim().split(':');
            let name = parts.next().unwrap_or_default();
            let rest: Vec<&str> = parts.collect();
            let number = rest.last().and_then(|text| text.parse().ok());
            match name {
                "gpu" => counted.gpus = Some(counted.gpus.unwrap_or(0).saturating_add(number.unwrap_or(1))),
                "mps" => counted.mps |= number != Some(0),
                "shard" => {}
                _ => continue,
            }
            counted.no_consume |= name != "mps" && rest.contains(&"no_consume");
        }
        counted
    }

    /// Why Tessera leaves a node to Slurm for which `tessera.toml` describes so many GPUs; `None`: it does not.
    #[must_use]
    pub fn left_to_slurm(&self, described: u64) -> Option<String> {
        match self.gpus {
            _ if self.mps => {
                Some("it has gres/mps in slurm.conf, whose jobs Tessera does not see".to_owned())
            }
            _ if self.no_consume => Some("its GPUs are no_consume in slurm.conf".to_owned()),
            Some(gpus) if gpus != described => {
                let s = if gpus == 1 { "" } else { "s" };
                Some(format!("{gpus} GPU{s} in slurm.conf, {described} in tessera.toml"))
            }
            _ => None,
        }
    }
}

/// The text without what stands in parentheses.
fn without_sockets(text: &str) -> String {
    let mut depth = 0_u32;
    let outside = |c: &char| {
        depth = if *c == '(' { depth + 1 } else { depth };
        let keep = depth == 0;
        depth = if *c == ')' { depth.saturating_sub(1) } else { depth };
        keep
    };
    text.chars().filter(outside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_gres_tell_whether_it_is_tesseras() {
        let why = |text: &str| NodeGres::of_gres(text).left_to_slurm(4);
        for ours in [
            "gpu:h100:4,shard:320",
            "gpu:4",
            "gpu:a:2,gpu:b:2",
            "nic:2,gpu:4",
            "",
            "mps:0,gpu:4",
            "gpu:h100:4(S:0-1),shard:320(S:0,1)",
        ] {
            assert_eq!(why(ours), None, "{ours}");
        }
        for (text, reason) in [
            ("gpu:h100:3(S:0,2),shard:240(S:0,2)", "3 GPUs in slurm.conf, 4 in tessera.toml"),
            ("gpu:h100:3,shard:240", "3 GPUs in slurm.conf, 4 in tessera.toml"),
            ("gpu", "1 GPU in slurm.conf, 4 in tessera.toml"),
            ("gpu:h100:no_consume:4", "its GPUs are no_consume in slurm.conf"),
            ("gpu:4,shard:no_consume:40", "its GPUs are no_consume in slurm.conf"),
            ("gpu:4,mps:400", "it has gres/mps in slurm.conf, whose jobs Tessera does not see"),
        ] {
            assert_eq!(why(text).as_deref(), Some(reason), "{text}");
        }
        assert_eq!(NodeGres::of_gres("bandwidth:no_consume:4"), NodeGres::default());
    }
}
