//! What the plugin wants written into slurmctld, as plain values. `ffi::apply` writes them, one after the other.

use geometry::JobId;
use protocol::layout::UNFIT;
use protocol::{AdminComment, Says};
use topology::GpuSet;

/// One change of a job's record, or of the answer to the test that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Takes nodes, by their index, out of the candidates.
    RuleOut(Vec<usize>),
    /// Makes exactly these nodes, by their index, the answer.
    Offer(Vec<usize>),
    /// Gives a pending job this many shards per node.
    Shards(u32),
    /// Makes Slurm look for GPUs with this many shards in this test only.
    PerGpu(u32),
    /// Replaces the devices that cons_tres chose on a node.
    Devices(Devices),
    /// Moves the start that a "when could it run" foretells, seconds since 1970.
    StartAt(i64),
    /// Makes these the jobs that have to go first, of all whose end frees what they hold.
    Preempt(Vec<JobId>),
    /// Makes this the only placement in the job's SPANK environment. `None` removes it with its reason and its match.
    Placement(Option<String>),
    /// The same for the reason of the placement.
    Why(Option<String>),
    /// The same for what the job is told of its whole GPUs.
    Match(Option<String>),
    /// Replaces the AdminComment.
    Comment(String),
    /// Makes Slurm count this many compute slices for the job, where the site has it count them.
    Slices(u64),
    /// Shows these layouts. Only where a job is to start now: slurmctld then holds the nodes' write lock.
    Layouts(Vec<Layout>),
    /// Tells slurmctld that jobs have changed: backfill sleeps on while nothing has.
    JobsChanged,
    /// Frees what the test allocated: slurmctld then sees that the job cannot start now.
    Unallocate,
}

/// The devices of one node that a job gets instead of those that cons_tres chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Devices {
    /// Slurm's index of the node.
    pub(crate) node: usize,
    /// Each with the number of parts of the job that it carries.
    pub(crate) devices: Vec<(usize, u64)>,
    /// Those that each of the job's GRES entries may have.
    pub(crate) entries: Vec<GpuSet>,
    /// For several instances of one job: what Slurm is to count for them.
    pub(crate) shards: Option<Counted>,
}

/// Shards of a job with several instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// On each of its GPUs.
    pub(crate) per_gpu: u64,
    /// On each of its nodes.
    pub(crate) per_node: u64,
    /// On all of them.
    pub(crate) of_job: u64,
}

/// A layout to show in a node's `extra`. An empty one takes an earlier layout away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) node: String,
    pub(crate) text: String,
}

impl Layout {
    /// Every layout begins with this; a site's own text in `extra` does not.
    const MARKER: &str = "tessera ";

    /// Whether it is to stand where `before` does: not where that is the same, or a text of the site's own, or why the node
    /// takes no jobs with GPUs.
    pub(crate) fn replaces(&self, before: &str) -> bool {
        let ours = before.starts_with(Self::MARKER) && !before.starts_with(UNFIT);
        before != self.text && (before.is_empty() || ours)
    }
}

/// Most bytes of a comment.
const MAX_COMMENT: usize = 400;

impl Effect {
    /// The devices of a node, if it is about these.
    pub(crate) fn devices(&self) -> Option<&Devices> {
        if let Self::Devices(devices) = self { Some(devices) } else { None }
    }

    /// The same with what Slurm is to count for the devices.
    pub(crate) fn counted(self, counted: Counted) -> Self {
        match self {
            Self::Devices(devices) => Self::Devices(Devices { shards: Some(counted), ..devices }),
            other => other,
        }
    }

    /// The start of a job is refused: nothing of it stays.
    pub(crate) fn refusal() -> [Self; 2] {
        [Self::Placement(None), Self::Unallocate]
    }

    /// Says this in a job's AdminComment, with what it `asks` behind it. `None` where somebody else has written `before`:
    /// that stays.
    pub(crate) fn comment(before: &AdminComment, says: Says, asks: Option<String>) -> Option<Self> {
        if !before.is_ours() {
            return None;
        }
        let mut text = AdminComment::from(says).to_string();
        let end = (0..=MAX_COMMENT.min(text.len())).rev().find(|i| text.is_char_boundary(*i));
        text.truncate(end.unwrap_or(0));
        Some(Self::Comment(AdminComment { asks, ..AdminComment::parse(&text) }.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sites_own_text_is_not_replaced_by_a_layout() {
        let replaces = |text: &str, before: &str| {
            Layout { node: "n1".to_owned(), text: text.to_owned() }.replaces(before)
        };
        assert!(replaces("tessera v1 gpu0=free", "") && replaces("", "tessera v1 gpu0=free"));
        assert!(!replaces("tessera v1 gpu0=free", "tessera v1 gpu0=free"));
        assert!(!replaces("tessera gpu0=free", "tessera unfit: GPU 0 is another"));
        assert!(!replaces("", "") && !replaces("tessera v1 gpu0=free", "rack 7"));
    }

    #[test]
    fn a_comment_is_cut_between_characters_and_another_persons_stays() {
        let said = |before: &str, text: &str| match Effect::comment(
            &AdminComment::parse(before),
            Says::Unknown(text.to_owned()),
            None,
        ) {
            Some(Effect::Comment(text)) => Some(text),
            _ => None,
        };
        assert_eq!(said("", "why").as_deref(), Some("tessera: why"));
        assert_eq!(said("benchmark of June", "why"), None);
        let long = format!("{}é", "x".repeat(390));
        assert_eq!(said("tessera: asks v1 iso=mig", &long).map(|text| text.len()), Some(399));
    }
}
