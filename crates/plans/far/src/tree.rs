//! The repartitioning tree of a GPU model, derived from its MIG placements.
//!
//! A node is one place where an instance of one compute size can be made. A node's parent is the smallest place that
//! contains it, and where two profiles cover the same units (4g and 3g at unit 0 of an A100) the one with more compute
//! slices comes first, as in Fig. 4 of the paper: the four-slice instance is tried for three-slice tasks before it is
//! split. Any set of nodes of which none is an ancestor of another is a legal layout of the GPU.
//!
//! Source: Villarrubia et al., FAR, JPDC 204 (2025), section 3.2 and Fig. 4. Differs: spans are NVML placement units,
//! so a 3g at unit 0 holds slice S3 too (its memory is gone), which the authors' program leaves out.

use geometry::{Model, Profile};

/// The most places a model can have: planners keep per-place arrays of this length on the stack.
pub const MAX_NODES: usize = 16;

/// One place where an instance can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeNode {
    /// Compute slices of the instance.
    pub size: u8,
    /// Index of `size` in [`Tree::sizes`].
    pub class: usize,
    /// First placement unit, as NVML counts them.
    pub start: u8,
    /// The units held, bit 0 for unit 0.
    pub mask: u16,
    /// The smallest place that contains this one; `None` for a root.
    pub parent: Option<usize>,
    /// Places directly below, by start.
    pub children: Vec<usize>,
    /// Name of the profile that is created there.
    pub profile: String,
}

/// The places of one GPU model, parents before children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Instance sizes in compute slices, ascending: the paper's C_G.
    pub sizes: Vec<u8>,
    /// Compute slices of the GPU: the paper's #slices.
    pub slices: u8,
    /// Placement units of the GPU.
    pub units: u8,
    /// All places, parents before children.
    pub nodes: Vec<TreeNode>,
}

/// Why a model has no repartitioning tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// Two places overlap and neither contains the other, so instances are not organised as a hierarchy.
    #[error("placements {0} and {1} overlap without one containing the other")]
    NotNested(String, String),
    /// A model with more places than [`MAX_NODES`], or none.
    #[error("{0} placements, expected 1 to {MAX_NODES}")]
    Places(usize),
}

impl Tree {
    /// Derives the tree from a model's placements. Of profiles with the same compute slices the plain one with the
    /// fewest units counts: variants with other engines and the larger-memory `1g.10gb` do not change compute.
    ///
    /// # Errors
    ///
    /// [`TreeError`] if the placements are not nested; no known model is like that.
    pub fn of(model: &Model) -> Result<Self, TreeError> {
        let mut plain: Vec<&Profile> = model.profiles.iter().filter(|p| !p.is_variant()).collect();
        plain.sort_by_key(|p| (p.compute_slices, p.size));
        plain.dedup_by_key(|p| p.compute_slices);
        let mut nodes = Vec::new();
        for (class, profile) in plain.iter().enumerate() {
            for start in &profile.starts {
                nodes.push(TreeNode {
                    size: profile.compute_slices,
                    class,
                    start: start.0,
                    mask: profile.at(*start).mask(),
                    parent: None,
                    children: Vec::new(),
                    profile: profile.name.clone(),
                });
            }
        }
        nodes.sort_by_key(|n| (std::cmp::Reverse((n.mask.count_ones(), n.size)), n.start));
        if nodes.is_empty() || nodes.len() > MAX_NODES {
            return Err(TreeError::Places(nodes.len()));
        }
        link(&mut nodes)?;
        let sizes = plain.iter().map(|p| p.compute_slices).collect();
        Ok(Self { sizes, slices: model.compute_slices, units: model.placement_units, nodes })
    }

    /// The place of an instance of `size` compute slices at unit `start`.
    #[must_use]
    pub fn find(&self, size: u8, start: u8) -> Option<usize> {
        self.nodes.iter().position(|n| n.size == size && n.start == start)
    }

    /// Places without a parent. One on every known model.
    pub fn roots(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(|&n| self.nodes[n].parent.is_none())
    }

    /// Every layout that no further instance fits into, as sets of places: 5 on an A30, 19 on an A100.
    #[must_use]
    pub fn partitions(&self) -> Vec<Vec<usize>> {
        let mut found = Vec::new();
        self.extend_partition(0, 0, &mut Vec::new(), &mut found);
        found
    }

    fn extend_partition(
        &self,
        from: usize,
        taken: u16,
        chosen: &mut Vec<usize>,
        found: &mut Vec<Vec<usize>>,
    ) {
        if self.nodes.iter().all(|n| n.mask & taken != 0) {
            let mut partition = chosen.clone();
            partition.sort_by_key(|&n| self.nodes[n].start);
            found.push(partition);
        }
        for (n, node) in self.nodes.iter().enumerate().skip(from).filter(|(_, n)| n.mask & taken == 0) {
            chosen.push(n);
            self.extend_partition(n + 1, taken | node.mask, chosen, found);
            chosen.pop();
        }
    }
}

fn link(nodes: &mut [TreeNode]) -> Result<(), TreeError> {
    for n in 0..nodes.len() {
        let mask = nodes[n].mask;
        if let Some(other) = nodes[..n].iter().find(|m| m.mask & mask != 0 && m.mask & mask != mask) {
            return Err(TreeError::NotNested(label(other), label(&nodes[n])));
        }
        if let Some(parent) = nodes[..n].iter().rposition(|m| m.mask & mask == mask) {
            nodes[n].parent = Some(parent);
            nodes[parent].children.push(n);
        }
    }
    Ok(())
}

fn label(node: &TreeNode) -> String {
    format!("{}@{}", node.profile, node.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(key: &str) -> String {
        let tree = Tree::of(Model::find(key).unwrap()).unwrap();
        let node = |n: &TreeNode| {
            let up = n
                .parent
                .map_or(String::from("-"), |p| format!("{}@{}", tree.nodes[p].size, tree.nodes[p].start));
            format!("{}@{}<{up}", n.size, n.start)
        };
        tree.nodes.iter().map(node).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn trees_are_those_of_the_paper() {
        let of_four = "4@0<- 2@0<4@0 2@U<4@0 1@0<2@0 1@V<2@0 1@U<2@U 1@W<2@U";
        let with = |u: &str, v: &str, w: &str| of_four.replace('U', u).replace('V', v).replace('W', w);
        assert_eq!(shape("a30-24gb"), with("2", "1", "3"));
        assert_eq!(shape("rtx-pro-6000-96gb"), with("6", "3", "9"), "12 units");
        let of_seven = "7@0<- 4@0<7@0 3@0<4@0 3@4<7@0 2@0<3@0 2@2<3@0 2@4<3@4 \
                        1@0<2@0 1@1<2@0 1@2<2@2 1@3<2@2 1@4<2@4 1@5<2@4 1@6<3@4";
        assert_eq!(shape("a100-40gb"), of_seven);
        assert_eq!(shape("h100-80gb-sxm"), of_seven);
    }

    #[test]
    fn every_model_has_a_tree() {
        for model in Model::all().iter().filter(|m| m.has_mig()) {
            let tree = Tree::of(model).unwrap();
            assert_eq!(tree.roots().count(), 1, "{}", model.key);
            assert_eq!(*tree.sizes.last().unwrap(), tree.slices, "{}", model.key);
        }
    }

    /// What the area bound rests on: work counted in slices never needs fewer leaves than that.
    #[test]
    fn every_place_has_a_leaf_per_slice() {
        for model in Model::all().iter().filter(|m| m.has_mig()) {
            let tree = Tree::of(model).unwrap();
            let leaves = || tree.nodes.iter().filter(|n| n.children.is_empty());
            for node in &tree.nodes {
                let below = leaves().filter(|l| l.mask & node.mask != 0).count();
                assert!(below >= usize::from(node.size), "{}: {}@{}", model.key, node.profile, node.start);
            }
            assert_eq!(leaves().count(), usize::from(tree.slices), "{}", model.key);
        }
    }

    #[test]
    fn partitions_are_those_of_figure_1() {
        let count = |key| Tree::of(Model::find(key).unwrap()).unwrap().partitions().len();
        assert_eq!((count("a30-24gb"), count("a100-40gb"), count("h100-80gb-sxm")), (5, 19, 19));
    }
}
