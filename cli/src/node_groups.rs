//! Many nodes as few groups: those whose GPUs are used alike.

use std::collections::HashMap;

use site_config::hostlist;

use crate::cluster_snapshot::{self, GpuSeen, NodeSeen, Slices, Use};

/// Nodes that are shown one by one. More are groups, unless the person wants each.
pub(crate) const MOST_SINGLE: usize = 40;
/// Meaning of the characters of a group's GPUs.
pub(crate) const MARKS: &str = "· free  ▄ partly  █ full  × Slurm's";
/// Columns of a group's names.
const LEAST_NAMES: usize = 12;
const MOST_NAMES: usize = 60;

/// A GPU in the picture of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Cell {
    Free,
    Partly,
    Full,
    /// Left to Slurm.
    Slurm,
    /// Unhealthy, and no job has anything of it.
    Sick,
}

impl Cell {
    fn mark(self) -> char {
        match self {
            Self::Free => '·',
            Self::Partly => '▄',
            Self::Full => '█',
            Self::Slurm => '×',
            Self::Sick => '!',
        }
    }
}

/// Nodes with the same GPUs, of which as many are free, partly and fully used.
pub(crate) struct Group<'a> {
    pub(crate) nodes: Vec<&'a NodeSeen>,
    /// As all of them are.
    pub(crate) in_use: Use,
    /// The GPUs of one, the free ones first.
    pub(crate) cells: Vec<Cell>,
    /// Slices of all nodes together.
    pub(crate) slices: Slices,
    /// The GPUs of one: `8 x a100-40gb`.
    pub(crate) gpus: String,
}

/// The groups, by the slices that are free on a node, the most first. Nodes that take no jobs come last.
pub(crate) fn fold<'a>(nodes: &[&'a NodeSeen]) -> Vec<Group<'a>> {
    let mut known: HashMap<_, usize> = HashMap::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for node in nodes {
        let (in_use, cells, gpus) = (node.in_use(), cells(node), gpus(node));
        let slices = node.slices();
        let at = *known.entry((in_use, cells.clone(), gpus.clone())).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => {
                group.nodes.push(node);
                group.slices = [group.slices, slices].into_iter().sum();
            }
            None => groups.push(Group { nodes: vec![node], in_use, cells, slices, gpus }),
        }
    }
    let n = |group: &Group<'_>| u32::try_from(group.nodes.len()).unwrap_or(u32::MAX);
    groups.sort_by_key(|group| (group.in_use.is_away(), std::cmp::Reverse(group.slices.free / n(group))));
    groups
}

impl Group<'_> {
    /// The GPUs of one and how much of all is free.
    fn words(&self) -> String {
        let cells: String = self.cells.iter().map(|cell| cell.mark()).collect();
        let free = match self.in_use {
            Use::Unknown => return format!("{cells:<8} GPUs not known"),
            Use::Away => "takes no jobs".to_owned(),
            _ => format!("{}/{} free", self.slices.free, self.slices.all),
        };
        format!("{cells:<8} {free}; {}", self.gpus)
    }

    /// `   12 n[1-12]  ········ 672/672 free; 8 x a100-40gb`, with so many columns for the names.
    pub(crate) fn line(&self, room: usize) -> String {
        let names: Vec<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        format!("{:>5} {} {}", names.len(), fit(&hostlist::compress(&names), room), self.words())
    }
}

/// Columns that the names of these groups may take on a screen of `width`.
pub(crate) fn room<'a>(groups: impl Iterator<Item = &'a Group<'a>>, width: usize) -> usize {
    let widest = groups.map(|group| group.words().chars().count()).max().unwrap_or(0);
    // Beside them stand the number of nodes and two blanks.
    width.saturating_sub(widest + 7).clamp(LEAST_NAMES, MOST_NAMES)
}

/// Fills a text up with blanks, or cuts it.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return format!("{text:<width$}");
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Many nodes for a person: a line per group.
pub(crate) fn summary(nodes: &[&NodeSeen], width: usize) -> String {
    let groups = fold(nodes);
    let room = room(groups.iter(), width);
    let lines: Vec<String> = groups.iter().map(|group| group.line(room)).collect();
    format!(
        "{}\nNODES, used alike    {MARKS}  ! unhealthy\n{}\n\n\
         --all draws each node; --node, --partition and --user choose nodes\n",
        cluster_snapshot::room(nodes).words(),
        lines.join("\n")
    )
}

fn cells(node: &NodeSeen) -> Vec<Cell> {
    let cell = |gpu: &GpuSeen| match gpu.both().in_use() {
        _ if gpu.state() == "slurm" => Cell::Slurm,
        _ if gpu.state() == "sick" => Cell::Sick,
        Use::Free => Cell::Free,
        Use::Partly => Cell::Partly,
        _ => Cell::Full,
    };
    let mut cells: Vec<Cell> = node.gpus.iter().flatten().map(cell).collect();
    cells.sort_unstable();
    cells
}

/// `8 x a100-40gb + 1 x t4-16gb`.
pub(crate) fn gpus(node: &NodeSeen) -> String {
    let mut models: Vec<(&str, usize)> = Vec::new();
    for gpu in node.gpus.iter().flatten() {
        match models.iter_mut().find(|(key, _)| *key == gpu.model.key) {
            Some((_, n)) => *n += 1,
            None => models.push((&gpu.model.key, 1)),
        }
    }
    models.iter().map(|(key, n)| format!("{n} x {key}")).collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_snapshot::tests::node;

    #[test]
    fn nodes_used_alike_are_one_group() {
        let node = |name: &str, line: &str| node(name, "gpu", true, &["a100-40gb"; 2], line);
        let nodes = [
            node("n1", "tessera gpu0=mig[3g.20gb@0:job1] gpu1=free"),
            // The GPUs in another order, another profile, another job.
            node("n2", "tessera gpu0=mig[2g.10gb@0:idle] gpu1=mig[2g.10gb@0:job2]"),
            node("n3", "tessera gpu0-1=free"),
            node("n4", "tessera gpu0=whole[job3] gpu1=free"),
            node("n5", "tessera gpu0=mig[9g@0:idle]"),
        ];
        let folded = fold(&nodes.iter().collect::<Vec<_>>());
        let told: Vec<(Vec<&str>, Use, u32)> = folded
            .iter()
            .map(|g| (g.nodes.iter().map(|n| n.name.as_str()).collect(), g.in_use, g.slices.free))
            .collect();
        assert_eq!(
            told,
            [
                (vec!["n3"], Use::Free, 14),
                (vec!["n1", "n2"], Use::Partly, 11 + 12),
                (vec!["n4"], Use::Partly, 7),
                (vec!["n5"], Use::Unknown, 0),
            ]
        );
        assert_eq!(folded[1].cells, [Cell::Free, Cell::Partly]);
        assert_eq!(folded[1].gpus, "2 x a100-40gb");
    }
}
