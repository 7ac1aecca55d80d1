//! The nodes' records as they were read last: a test reads again only what has changed.

use std::collections::HashSet;
use std::sync::Arc;

use protocol::node_word::split;

use crate::engine::{Engine, Heard};
use crate::slurm_rules::says_unfit;
use crate::view::{NodeSlot, NodeView};

/// A node's record as Slurm has it now. Its texts are Slurm's own, not copied: every node is looked at in every test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawNode<'a> {
    /// Place in Slurm's node table.
    pub(crate) index: usize,
    pub(crate) name: &'a [u8],
    pub(crate) extra: &'a [u8],
    /// Start time of the slurmd that has registered, seconds since 1970; 0: none has since slurmctld's start.
    pub(crate) started: u64,
    /// Time of its last boot, seconds since 1970; 0: it has not registered.
    pub(crate) booted: u64,
    /// See [`NodeView::config`].
    pub(crate) config: usize,
    /// slurmctld knows its devices before its slurmd registers.
    pub(crate) in_cloud: bool,
    /// See [`NodeView::completing`].
    pub(crate) completing: bool,
    /// See [`NodeView::required`].
    pub(crate) required: bool,
}

impl RawNode<'_> {
    /// Copies its name; `None` for a node that Slurm has deleted.
    pub(crate) fn own_name(&self) -> Option<String> {
        let name = str::from_utf8(self.name).ok()?;
        (!name.is_empty()).then(|| name.to_owned())
    }
}

/// The names of the nodes on which an epilog is still to end.
pub(crate) fn completing<'a>(nodes: impl Iterator<Item = RawNode<'a>>) -> HashSet<String> {
    nodes.filter(|node| node.completing).filter_map(|node| node.own_name()).collect()
}

/// Each node's place in the node table, and when it booted.
pub(crate) fn boots<'a>(nodes: impl Iterator<Item = RawNode<'a>>) -> impl Iterator<Item = (usize, u64)> {
    nodes.map(|node| (node.index, node.booted))
}

/// The `extra` of each node that has one, without the node's word.
pub(crate) fn extras<'a>(nodes: impl Iterator<Item = RawNode<'a>>) -> Vec<(String, String)> {
    let with_extra = nodes.filter(|node| !node.extra.is_empty());
    let own = |node: RawNode<'_>| {
        let extra = str::from_utf8(node.extra).ok()?;
        Some((node.own_name()?, split(extra).0.to_owned()))
    };
    with_extra.filter_map(own).collect()
}

/// Nodes as they were read last, by their places in the node table.
#[derive(Default)]
pub(crate) struct LastSeen(Vec<Option<SeenNode>>);

struct SeenNode {
    name: Arc<str>,
    slot: Option<NodeSlot>,
    extra: Vec<u8>,
    started: u64,
    unfit: bool,
    /// The node's word has not been answered since it changed.
    unanswered: bool,
}

impl SeenNode {
    fn new(name: &str, slot: Option<NodeSlot>) -> Self {
        let (name, extra) = (name.into(), Vec::new());
        Self { name, slot, extra, started: 0, unfit: false, unanswered: false }
    }
}

impl LastSeen {
    /// Looks at a node, and has the engine hear what is new in its record; `None` for a node without a name, which Slurm has deleted.
    pub(crate) fn look(&mut self, engine: &mut Engine, record: &RawNode<'_>) -> Option<NodeView> {
        let seen = self.node(engine, record)?;
        Some(NodeView {
            index: record.index,
            name: Arc::clone(&seen.name),
            slot: seen.slot,
            config: record.config,
            completing: record.completing,
            registered: record.started != 0 || record.in_cloud,
            unfit: seen.unfit,
            required: record.required,
        })
    }

    /// Looks at these nodes, and gives what those said whose records have changed since the last time.
    pub(crate) fn listen<'a>(
        &mut self,
        engine: &mut Engine,
        records: impl Iterator<Item = RawNode<'a>>,
    ) -> Vec<(String, Heard)> {
        let mut news = Vec::new();
        for record in records {
            if let Some(seen) = self.node(engine, &record).filter(|seen| seen.unanswered) {
                seen.unanswered = false;
                news.push((seen.name.to_string(), Heard::from_extra(record.extra, record.started)));
            }
        }
        news
    }

    fn node(&mut self, engine: &mut Engine, record: &RawNode<'_>) -> Option<&mut SeenNode> {
        if self.0.len() <= record.index {
            self.0.resize_with(record.index + 1, || None);
        }
        let slot = self.0.get_mut(record.index)?;
        let same = slot.as_ref().is_some_and(|seen| seen.name.as_bytes() == record.name);
        if !same {
            *slot = record.own_name().map(|name| SeenNode::new(&name, engine.slot(&name)));
        }
        let seen = slot.as_mut()?;
        if !same || seen.started != record.started || seen.extra != record.extra {
            let heard = Heard::from_extra(record.extra, record.started);
            engine.hear(&*seen.name, heard);
            seen.extra.clear();
            seen.extra.extend_from_slice(record.extra);
            (seen.started, seen.unfit, seen.unanswered) = (record.started, says_unfit(record.extra), true);
        }
        Some(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{NodeWord, Said};

    fn engine() -> Engine {
        let file = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\n";
        Engine::of_tests(file)
    }

    fn record<'a>(index: usize, name: &'a str, extra: &'a str) -> RawNode<'a> {
        let (name, extra) = (name.as_bytes(), extra.as_bytes());
        RawNode {
            index,
            name,
            extra,
            started: 5,
            booted: 0,
            config: 7,
            in_cloud: false,
            completing: false,
            required: false,
        }
    }

    #[test]
    fn a_node_is_heard_again_only_if_its_record_has_changed() {
        let (mut seen, mut engine) = (LastSeen::default(), engine());
        let silent = record(0, "n1", "rack 7");
        let listen = |seen: &mut LastSeen, engine: &mut Engine, record: RawNode<'_>| {
            seen.listen(engine, [record].into_iter()).len()
        };
        assert_eq!(listen(&mut seen, &mut engine, silent), 1);
        assert!(engine.is_away("n1"), "it does not say that it loads Tessera");
        assert_eq!(listen(&mut seen, &mut engine, silent), 0);
        // Heard in a test, it is still to be answered.
        let word = format!("rack 7 {}", NodeWord::Says(Said { started: 5, file: engine.fingerprint("n1") }));
        let speaks = record(0, "n1", &word);
        assert!(seen.look(&mut engine, &speaks).is_some() && !engine.is_away("n1"));
        assert_eq!([(); 2].map(|()| listen(&mut seen, &mut engine, speaks)), [1, 0]);
        let another = RawNode { started: 6, ..speaks };
        assert!(seen.look(&mut engine, &another).is_some() && engine.is_away("n1"), "another slurmd");
    }

    #[test]
    fn a_view_has_what_the_record_has_now() {
        let (mut seen, mut engine) = (LastSeen::default(), engine());
        let first = record(3, "n2", "tessera unfit: no GPUs");
        let view = seen.look(&mut engine, &first).unwrap();
        assert_eq!((view.index, &*view.name, view.config, view.unfit), (3, "n2", 7, true));
        assert_eq!(view.slot, engine.slot("n2"));
        let later = RawNode { completing: true, required: true, config: 8, extra: b"", ..first };
        let view = seen.look(&mut engine, &later).unwrap();
        assert!(view.completing && view.required && view.registered && !view.unfit);
        assert_eq!(view.config, 8);
        let before_its_boot = |in_cloud| RawNode { started: 0, in_cloud, ..first };
        let registered =
            [false, true].map(|cloud| seen.look(&mut engine, &before_its_boot(cloud)).unwrap().registered);
        assert_eq!(registered, [false, true], "slurmctld knows the devices of a cloud's nodes");
        let other = seen.look(&mut engine, &record(3, "x", "")).unwrap();
        assert_eq!((&*other.name, other.slot), ("x", None), "another node has the place in the table");
        assert!(seen.look(&mut engine, &record(3, "", "")).is_none(), "it was deleted");
        assert!(seen.look(&mut engine, &record(3, "n2", "")).is_some_and(|view| view.slot.is_some()));
    }
}
