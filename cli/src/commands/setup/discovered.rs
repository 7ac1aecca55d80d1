//! GPUs of one kind of node, as `tessera discover --format all` prints them.

use site_config::hostlist::expand;
use slurm_files::Line;

/// Needs of a kind of node in each file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Discovered {
    /// Names of the nodes as they are written, and one by one.
    pub(super) names: String,
    pub(super) nodes: Vec<String>,
    /// Lines of tessera.toml.
    pub(super) toml: Vec<String>,
    /// Lines of gres.conf for GPUs, and the one for shards.
    pub(super) gpu_lines: Vec<String>,
    pub(super) shard_line: String,
    /// Value for `Gres=` in slurm.conf: `gpu:a100:8,shard:320`.
    pub(super) gres: String,
    pub(super) shards: u32,
    pub(super) gpus: u32,
    /// Some GPU's model is not known: its `[[models]]` is to be completed first.
    pub(super) is_unknown: bool,
}

impl Discovered {
    /// Reads the text of `tessera discover --format all`.
    ///
    /// # Errors
    ///
    /// It is something else.
    pub(super) fn read(text: &str) -> Result<Self, &'static str> {
        const WHY: &str = "this is not what `tessera discover --format all` prints";
        let (toml, rest) = text
            .trim_start()
            .strip_prefix("# tessera.toml\n")
            .and_then(|rest| rest.split_once("\n# gres.conf\n"))
            .ok_or(WHY)?;
        let (gres, slurm) = rest.split_once("\n# slurm.conf\n").ok_or(WHY)?;
        let node = slurm.lines().map(|line| line.split('#').next().unwrap_or_default());
        let node = node.map(Line::read).find(|line| line.begins("NodeName")).ok_or(WHY)?;
        let (names, value) = node.field("NodeName").zip(node.field("Gres")).ok_or(WHY)?;
        let is_shard = |line: &&str| Line::read(line).field("Name") == Some("shard");
        let filled =
            |text: &str| text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
        let shard_line = gres.lines().find(is_shard).ok_or(WHY)?.to_owned();
        let gpu_lines = gres.lines().filter(|line| !is_shard(line)).collect::<Vec<_>>().join("\n");
        Ok(Self {
            names: names.to_owned(),
            nodes: expand(names).map_err(|_| WHY)?,
            toml: filled(toml),
            gpu_lines: filled(&gpu_lines),
            shard_line,
            gres: value.to_owned(),
            shards: count(value, "shard"),
            gpus: count(value, "gpu"),
            is_unknown: toml.contains("\n[[models]]\n"),
        })
    }
}

/// Adds up the numbers of one kind in a GRES: 8 of `gpu:a100:4(S:0,1),gpu:h100:4,shard:320`. A kind without a number counts once.
pub(super) fn count(gres: &str, kind: &str) -> u32 {
    let of = |entry: &str| {
        let entry = entry.split('(').next().unwrap_or_default();
        let mut words = entry.trim().split(':').filter(|word| *word != "no_consume");
        let is_kind = words.next().is_some_and(|word| word.eq_ignore_ascii_case(kind));
        is_kind.then(|| words.next_back().and_then(|last| last.parse::<u32>().ok()).unwrap_or(1))
    };
    gres.split(',').filter_map(of).fold(0, u32::saturating_add)
}

/// A GRES with this number of shards, and everything else as it is.
pub(super) fn with_shards(gres: &str, shards: u32) -> String {
    let is_shard =
        |entry: &&str| entry.split(':').next().is_some_and(|word| word.eq_ignore_ascii_case("shard"));
    let others = gres.split(',').filter(|entry| !entry.is_empty() && !is_shard(entry)).map(str::to_owned);
    others.chain([format!("shard:{shards}")]).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
pub(super) const EXAMPLE: &str = "\
# tessera.toml
# Written by `tessera discover` on n1, driver 1.2.
[[nodes]]
names = \"n1\"
gpu = \"a100-40gb\"
count = 2
mig = \"dynamic\"

# gres.conf
NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-1]
NodeName=n1 Name=shard Count=80

# slurm.conf
GresTypes=gpu,shard
NodeName=n1 Gres=gpu:a100:2,shard:80 # and CPUs, RealMemory as `slurmd -C` prints them
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_discover_prints_is_read() {
        let read = Discovered::read(EXAMPLE).unwrap();
        assert_eq!((read.names.as_str(), read.gpus, read.shards, read.is_unknown), ("n1", 2, 80, false));
        assert_eq!(read.gpu_lines, ["NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-1]"]);
        assert_eq!(read.shard_line, "NodeName=n1 Name=shard Count=80");
        assert_eq!(read.toml.len(), 6);
        assert!(Discovered::read("[[nodes]]\n").is_err());
    }

    #[test]
    fn numbers_in_a_gres() {
        assert_eq!(count("gpu:a100:4(S:0,1),gpu:h100:no_consume:2,shard:9", "gpu"), 6);
        assert_eq!((count("gpu", "gpu"), count("gpu:a100", "gpu"), count("(null)", "gpu")), (1, 1, 0));
        assert_eq!(with_shards("gpu:a100:4(S:0,1),shard:9", 320), "gpu:a100:4(S:0,1),shard:320");
        assert_eq!(with_shards("gpu:8", 320), "gpu:8,shard:320");
    }
}
