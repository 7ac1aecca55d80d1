//! The nodes' records as they were read last: a test reads again only what has changed.

use std::sync::Arc;

use crate::engine::{Engine, Heard, Place};
use crate::slurm_rules::says_unfit;
use crate::view::NodeView;

/// A node's record as Slurm has it now. Its texts are Slurm's own, not copied: every node is looked at in every test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    /// Its place in Slurm's node table.
    pub(crate) index: usize,
    pub(crate) name: &'a [u8],
    pub(crate) extra: &'a [u8],
    /// Start time of the slurmd that has registered, seconds since 1970; 0: none has since slurmctld's start.
    pub(crate) started: u64,
    /// See [`NodeView::config`].
    pub(crate) config: usize,
    /// See [`NodeView::completing`].
    pub(crate) completing: bool,
    /// See [`NodeView::required`].
    pub(crate) required: bool,
}

/// What was last read of each node, by its place in the node table.
#[derive(Default)]
pub(crate) struct Seen(Vec<Option<SeenNode>>);

struct SeenNode {
    name: Arc<str>,
    place: Option<Place>,
    extra: Vec<u8>,
    started: u64,
    unfit: bool,
    /// Its word has not been answered since it changed.
    unanswered: bool,
}

impl SeenNode {
    fn new(name: &str, place: Option<Place>) -> Self {
        let (name, extra) = (name.into(), Vec::new());
        Self { name, place, extra, started: 0, unfit: false, unanswered: false }
    }
}

impl Seen {
    /// Looks at a node, and has the engine hear what is new in its record; `None` for a node without a name, which Slurm has deleted.
    pub(crate) fn look(&mut self, engine: &mut Engine, record: &Record<'_>) -> Option<NodeView> {
        let seen = self.node(engine, record)?;
        Some(NodeView {
            index: record.index,
            name: Arc::clone(&seen.name),
            place: seen.place,
            config: record.config,
            completing: record.completing,
            registered: record.started != 0,
            unfit: seen.unfit,
            required: record.required,
        })
    }

    /// Looks at these nodes, and gives what those said whose records have changed since the last time.
    pub(crate) fn listen<'a>(
        &mut self,
        engine: &mut Engine,
        records: impl Iterator<Item = Record<'a>>,
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

    fn node(&mut self, engine: &mut Engine, record: &Record<'_>) -> Option<&mut SeenNode> {
        if self.0.len() <= record.index {
            self.0.resize_with(record.index + 1, || None);
        }
        let slot = self.0.get_mut(record.index)?;
        let same = slot.as_ref().is_some_and(|seen| seen.name.as_bytes() == record.name);
        if !same {
            let name = String::from_utf8_lossy(record.name);
            *slot = (!name.is_empty()).then(|| SeenNode::new(&name, engine.place(&*name)));
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
        let (config, errors) = site_config::parse("t", file, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        Engine::new(config.unwrap())
    }

    fn record<'a>(index: usize, name: &'a str, extra: &'a str) -> Record<'a> {
        let (name, extra) = (name.as_bytes(), extra.as_bytes());
        Record { index, name, extra, started: 5, config: 7, completing: false, required: false }
    }

    #[test]
    fn a_node_is_heard_again_only_if_its_record_has_changed() {
        let (mut seen, mut engine) = (Seen::default(), engine());
        let silent = record(0, "n1", "rack 7");
        let listen = |seen: &mut Seen, engine: &mut Engine, record: Record<'_>| {
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
        let another = Record { started: 6, ..speaks };
        assert!(seen.look(&mut engine, &another).is_some() && engine.is_away("n1"), "another slurmd");
    }

    #[test]
    fn a_view_has_what_the_record_has_now() {
        let (mut seen, mut engine) = (Seen::default(), engine());
        let first = record(3, "n2", "tessera unfit: no GPUs");
        let view = seen.look(&mut engine, &first).unwrap();
        assert_eq!((view.index, &*view.name, view.config, view.unfit), (3, "n2", 7, true));
        assert_eq!(view.place, engine.place("n2"));
        let later = Record { completing: true, required: true, config: 8, extra: b"", ..first };
        let view = seen.look(&mut engine, &later).unwrap();
        assert!(view.completing && view.required && view.registered && !view.unfit);
        assert_eq!(view.config, 8);
        let other = seen.look(&mut engine, &record(3, "x", "")).unwrap();
        assert_eq!((&*other.name, other.place), ("x", None), "another node has the place in the table");
        assert!(seen.look(&mut engine, &record(3, "", "")).is_none(), "it was deleted");
        assert!(seen.look(&mut engine, &record(3, "n2", "")).is_some_and(|view| view.place.is_some()));
    }
}
