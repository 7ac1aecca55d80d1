//! Changes that the plugin wants written into slurmctld, as plain values. `ffi::apply` writes them, one after the other.

use geometry::JobId;
use protocol::node_word::{Extra, UNFIT};
use protocol::set_summary::MATCH_ENV;
use protocol::wire::{PLACEMENT_ENV, WHY_ENV};
use protocol::{AdminComment, CommentBody, NodeWord, Request};
use topology::GpuSet;

use crate::node_order::Placed;
use crate::view::JobView;

/// A change of a job's record, or of the answer to the test that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Takes nodes, by their index, out of the candidates.
    RuleOut(Vec<usize>),
    /// Has Slurm take nodes in this order, in this test only.
    Order(Vec<Placed>),
    /// Makes exactly these nodes, by their index, the answer.
    Offer(Vec<usize>),
    /// Gives a pending job this many shards per node.
    Shards(u32),
    /// Makes Slurm look for GPUs with this many shards in this test only.
    SearchShards(u32),
    /// Replaces the devices that cons_tres chose on a node.
    Devices(Devices),
    /// Moves the start that a "when could it run" foretells, seconds since 1970.
    StartAt(i64),
    /// Makes these the jobs that have to go first, of all whose end frees what they hold.
    Preempt(Vec<JobId>),
    /// Makes this the only placement in the job's SPANK environment. `None` removes it with its reason and its match.
    Placement(Option<String>),
    /// Makes this the only reason of the placement there; `None` removes it.
    Why(Option<String>),
    /// Makes this the only message there about the job's whole GPUs; `None` removes it.
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
    /// Devices that each of the job's GRES entries may have.
    pub(crate) entries: Vec<GpuSet>,
    /// For several instances of one job, and for seats whose tasks may use several GPUs: what Slurm is to count for them.
    pub(crate) shards: Option<Counted>,
}

/// Shards of a job on several GPUs of a node.
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

    /// The node's `extra` with this layout; `None`: `extra` stays, because it shows the layout, or has a text of the site's own, or
    /// why the node takes no jobs with GPUs. The node's words at the end stay in any case.
    pub(crate) fn shown_in(&self, extra: &str) -> Option<String> {
        let extra = Extra::read(extra);
        let ours = extra.before.starts_with(Self::MARKER) && !extra.before.starts_with(UNFIT);
        let replaced = extra.before != self.text && (extra.before.is_empty() || ours);
        replaced.then(|| Extra { before: &self.text, ..extra }.to_string())
    }
}

/// A node's words to show at the end of its `extra`, whatever comes before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) node: String,
    /// The word about unhealthy GPUs; empty if there is none.
    pub(crate) sick: String,
    pub(crate) word: NodeWord,
}

impl Word {
    /// The node's `extra` with these words; `None`: it has them.
    pub(crate) fn shown_in(&self, extra: &str) -> Option<String> {
        let before = Extra::read(extra);
        let after = Extra { sick: &self.sick, word: Some(self.word), ..before };
        (after != before).then(|| after.to_string())
    }
}

/// Most bytes of a comment.
const MAX_COMMENT: usize = 400;

impl Effect {
    /// Variables of the job's SPANK environment that it sets, or removes by `None`.
    pub(crate) fn variables(&self) -> Vec<(&'static str, Option<&str>)> {
        match self {
            Self::Placement(None) => vec![(PLACEMENT_ENV, None), (WHY_ENV, None), (MATCH_ENV, None)],
            Self::Placement(value) => vec![(PLACEMENT_ENV, value.as_deref())],
            Self::Why(value) => vec![(WHY_ENV, value.as_deref())],
            Self::Match(value) => vec![(MATCH_ENV, value.as_deref())],
            _ => Vec::new(),
        }
    }

    /// The devices of a node, if it is about these.
    pub(crate) fn devices(&self) -> Option<&Devices> {
        if let Self::Devices(devices) = self { Some(devices) } else { None }
    }

    /// The order of nodes, if it is about that.
    pub(crate) fn order(&self) -> Option<&[Placed]> {
        if let Self::Order(order) = self { Some(order) } else { None }
    }

    /// Adds the shards that Slurm is to count for the devices.
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

    /// Says in the AdminComment of a pending job what keeps it waiting, or takes that back. What a planner, a wait for better GPUs or
    /// a start has written there stays, because the job still needs it; so does why a node has requeued it, or why a change was
    /// refused, unless it is a limit, power or a node that it waits for.
    pub(crate) fn said(view: &JobView, now: CommentBody) -> Option<Self> {
        let is_moldable = || view.request.as_ref().is_some_and(Request::is_moldable);
        let is_news = match &view.comment.says {
            CommentBody::Nothing => now != CommentBody::Nothing,
            CommentBody::Limited(_)
            | CommentBody::Power(_)
            | CommentBody::Slices(_)
            | CommentBody::Nodes(_) => true,
            CommentBody::Requeued(_) | CommentBody::Unchanged(_) => {
                !matches!(now, CommentBody::Nothing | CommentBody::Slices(_))
            }
            CommentBody::Started(_) => now != CommentBody::Nothing && !is_moldable(),
            _ => false,
        };
        (is_news && now != view.comment.says)
            .then(|| Self::comment(&view.comment, now, view.comment.asks.clone()))
            .flatten()
    }

    /// Says this in a job's AdminComment, with what it `asks` behind it. `None` where somebody else has written `before`:
    /// that stays. A note about idle GPUs stays until the job starts again; what was learnt of such jobs, and the raise of its time
    /// limit, stay.
    pub(crate) fn comment(before: &AdminComment, says: CommentBody, asks: Option<String>) -> Option<Self> {
        if !before.is_ours() {
            return None;
        }
        let idle = before.idle.clone().filter(|_| !matches!(says, CommentBody::Started(_)));
        let mut text = AdminComment::from(says).to_string();
        let end = (0..=MAX_COMMENT.min(text.len())).rev().find(|i| text.is_char_boundary(*i));
        text.truncate(end.unwrap_or(0));
        let says = AdminComment::parse(&text).says;
        Some(Self::Comment(AdminComment { says, idle, asks, ..before.clone() }.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sites_own_text_is_not_replaced_by_a_layout() {
        let shown = |text: &str, before: &str| {
            Layout { node: "n1".to_owned(), text: text.to_owned() }.shown_in(before)
        };
        for word in [
            "",
            " node=silent",
            " node=same:1:00000000000000ab",
            " sick=0:7:xid_79 node=silent",
            " idle=9,7:5:1:1:3",
        ] {
            let free = format!("tessera gpu0=free{word}");
            let none = if word.is_empty() { String::new() } else { format!("tessera{word}") };
            assert_eq!(shown("tessera gpu0=free", &none), Some(free.clone()));
            assert_eq!(shown("", &free), Some(none.clone()));
            assert_eq!(shown("tessera gpu0=free", &free), None);
            assert_eq!(shown("", &none), None);
            for stays in ["tessera unfit: GPU 0 is another", "rack 7"] {
                assert_eq!(shown("tessera gpu0=free", &format!("{stays}{word}")), None);
            }
        }
    }

    #[test]
    fn a_placement_that_goes_takes_its_reason_and_its_match_along() {
        let text = || Some("x".to_owned());
        assert_eq!(Effect::Placement(text()).variables(), [(PLACEMENT_ENV, Some("x"))]);
        let none = [PLACEMENT_ENV, WHY_ENV, MATCH_ENV].map(|name| (name, None));
        assert_eq!(Effect::Placement(None).variables(), none);
        assert_eq!(Effect::Why(None).variables(), [(WHY_ENV, None)]);
        assert_eq!(Effect::Match(text()).variables(), [(MATCH_ENV, Some("x"))]);
        assert_eq!(Effect::JobsChanged.variables(), []);
    }

    #[test]
    fn a_nodes_word_comes_behind_any_text() {
        let word = Word { node: "n1".to_owned(), sick: String::new(), word: NodeWord::Silent };
        for (before, after) in [
            ("", "tessera node=silent"),
            ("rack 7", "rack 7 node=silent"),
            ("tessera gpu0=free node=says:1:00000000000000ab", "tessera gpu0=free node=silent"),
        ] {
            assert_eq!(word.shown_in(before).as_deref(), Some(after));
            assert_eq!(word.shown_in(after), None);
        }
    }

    #[test]
    fn a_comment_is_cut_between_characters_and_another_persons_stays() {
        let said = |before: &str, text: &str| match Effect::comment(
            &AdminComment::parse(before),
            CommentBody::Unknown(text.to_owned()),
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

    #[test]
    fn a_note_replaces_no_plan_no_wait_and_no_size_that_the_job_still_needs() {
        let said = |before: &str, request: &str, says: &str| {
            let comment = AdminComment::parse(before);
            assert!(!matches!(comment.says, CommentBody::Unknown(_)), "{before}");
            let request = protocol::wire::parse_request(request).ok();
            let view = JobView { comment, request, ..JobView::of_tests() };
            Effect::said(&view, AdminComment::parse(says).says).is_some()
        };
        let (fixed, sizes) = ("v1 iso=mig:1g.5gb", "v1 iso=mig times=1g:60,2g:35");
        let notes = [
            "tessera: cannot start: 7 slices",
            "tessera: waits for power: 10 W",
            "tessera: waits for slices: none",
        ];
        for (before, request, news) in [
            ("", fixed, [true, true, true]),
            ("tessera: cannot start: 4 slices", fixed, [true, true, true]),
            ("tessera: requeued n1: busy", fixed, [true, true, false]),
            ("tessera: n1=mig:0/1g.5gb@4: why", fixed, [true, true, true]),
            ("tessera: n1=mig:0/1g.5gb@4: why", sizes, [false, false, false]),
            (
                "tessera: waits until 2026-11-30T08:00:00Z for GPUs above 25 GB/s",
                fixed,
                [false, false, false],
            ),
            (
                "tessera: plan v1 size=2g.10gb place=n1:3@4 begin=1790000000 end=1790000035 until=1790000600",
                sizes,
                [false, false, false],
            ),
            ("benchmark of June", fixed, [false, false, false]),
        ] {
            assert_eq!(notes.map(|note| said(before, request, note)), news, "{before}, {request}");
        }
        assert!(said(notes[0], fixed, ""), "taken back");
        assert!(!said("tessera: waits until 2026-11-30T08:00:00Z for GPUs above 25 GB/s", fixed, ""));
    }

    #[test]
    fn a_note_about_idle_gpus_stays_until_the_next_start() {
        let before = AdminComment::parse("tessera: n1=whole:0: why; idle: requeued");
        let said = |text: &str| {
            let says = AdminComment::parse(text).says;
            let Some(Effect::Comment(text)) = Effect::comment(&before, says, None) else { panic!("{text}") };
            text
        };
        let waits = "tessera: waits for slices: no place is free for a whole GPU";
        assert_eq!(said(waits), format!("{waits}; idle: requeued"));
        assert_eq!(said("tessera: n2=whole:1: why"), "tessera: n2=whole:1: why");
    }

    #[test]
    fn a_job_that_starts_keeps_the_raise_of_its_time_limit_for_a_requeue() {
        let plan = AdminComment::parse("tessera: limit 10>36; plan v1 size=2g.10gb until=5");
        let says = AdminComment::parse("tessera: n1=mig:0/2g.10gb@0: why").says;
        let started =
            Effect::Comment("tessera: limit 10>36; n1=mig:0/2g.10gb@0: why; asks v1 iso=mig".to_owned());
        assert_eq!(Effect::comment(&plan, says, Some("v1 iso=mig".to_owned())), Some(started));
    }
}
