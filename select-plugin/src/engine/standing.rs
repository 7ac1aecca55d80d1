//! Tracks which nodes' slurmds load Tessera and have slurmctld's `tessera.toml`, by the word at the end of their `extra`. Jobs with
//! requests of ours run on no others, and Slurm alone places the rest there. What jobs hold there is counted all the same.

use protocol::{Extra, NodeWord, Said, Standing, sick};

use super::{Engine, Named, NodeEntry};

/// Facts in a node's record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// The word in its `extra`.
    pub(crate) word: Option<NodeWord>,
    /// The word there about unhealthy GPUs; empty if there is none.
    pub(crate) sick: String,
    /// Start time of the slurmd that has registered, seconds since 1970; 0: none has since slurmctld's start.
    pub(crate) started: u64,
}

impl Heard {
    /// Reads the words at the end of a node's `extra`. No more is looked at than the words have: every node is asked in every test.
    pub(crate) fn from_extra(extra: &[u8], started: u64) -> Self {
        let extra = extra.trim_ascii_end();
        let spaces = extra.iter().enumerate().rev().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at);
        // The word about the node, and before it the one about its GPUs.
        let at = spaces.take(2).last().unwrap_or(0);
        let tail = String::from_utf8_lossy(&extra[at..]);
        let Extra { sick, word, .. } = Extra::read(tail.trim_start());
        Self { word, sick: sick.to_owned(), started }
    }
}

impl Engine {
    /// Judges a node anew by what its record shows.
    pub(crate) fn hear<N: Named + ?Sized>(&mut self, node: &N, heard: Heard) {
        let Some(entry) = self.nodes.get_mut(node) else { return };
        // A word that is missing was written over: the node takes it back by another.
        let taken_back = entry.sick.is_empty() && heard.sick == sick::NONE;
        if !heard.sick.is_empty() && heard.sick != entry.sick && !taken_back {
            entry.leave_out(heard.sick);
        }
        let file = self.files.get(entry.spec).copied().unwrap_or_default();
        let of_this_slurmd = |said: &Said| said.started == heard.started;
        // A text of the site's own, or an older word, may have been written over it.
        let kept = entry.said.filter(of_this_slurmd);
        let new = heard.word.and_then(NodeWord::said);
        entry.said = new.filter(|new| kept.is_none() || of_this_slurmd(new)).or(kept).or(entry.said);
        entry.standing = Said::judge(entry.said, heard.started, file);
    }

    /// Tells whether the node has an unhealthy GPU.
    pub(crate) fn has_sick<N: Named + ?Sized>(&self, node: &N) -> bool {
        self.managed(node).is_some_and(|entry| !entry.sick.is_empty())
    }

    /// The node's word about unhealthy GPUs; empty if it has none.
    pub(crate) fn sick(&self, node: &str) -> &str {
        self.nodes.get(node).map_or("", |entry| &entry.sick)
    }

    /// Standing of a node; `None`: the file does not describe it.
    pub(crate) fn standing(&self, node: &str) -> Option<Standing> {
        self.nodes.get(node).map(|entry| entry.standing)
    }

    /// Tells whether jobs with requests of ours are kept off a node that the file describes.
    pub(crate) fn is_away<N: Named + ?Sized>(&self, node: &N) -> bool {
        self.managed(node).is_some_and(|entry| entry.standing != Standing::Same)
    }

    /// The word for people; `None`: the file does not describe the node.
    pub(crate) fn word(&self, node: &str) -> Option<NodeWord> {
        self.nodes.get(node).map(|entry| NodeWord::judged(entry.standing, entry.said))
    }
}

impl NodeEntry {
    /// Leaves out the GPUs that the word names, and no others.
    fn leave_out(&mut self, word: String) {
        let sick = sick::parse(&word).unwrap_or_default();
        for (gpu, i) in self.node.gpus.iter_mut().zip(0..) {
            gpu.left_out = sick.iter().any(|sick| sick.gpu.0 == i);
        }
        self.sick = if sick.is_empty() { String::new() } else { word };
        self.changed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(word: Option<NodeWord>, started: u64) -> Heard {
        Heard { word, started, ..Heard::default() }
    }

    #[test]
    fn unhealthy_gpus_are_left_out_until_the_node_says_otherwise() {
        let mut engine = Engine::of_tests(FILE);
        let mut hear = |extra: &str| {
            engine.hear("n1", Heard::from_extra(extra.as_bytes(), 5));
            let gpus = &engine.nodes.get("n1").unwrap().node.gpus;
            (engine.sick("n1").to_owned(), gpus.iter().map(|gpu| gpu.left_out).collect::<Vec<_>>())
        };
        let word = "sick=1:7:xid_79".to_owned();
        let file = "0000000000000001";
        assert_eq!(hear("tessera gpu0-1=free"), (String::new(), vec![false, false]));
        assert_eq!(
            hear(&format!("tessera gpu0-1=free {word} node=says:5:{file}")),
            (word.clone(), vec![false, true])
        );
        assert_eq!(hear("rack 7"), (word.clone(), vec![false, true]), "somebody has written over it");
        assert_eq!(hear(&format!("rack 7 node=other:5:{file}")), (word.clone(), vec![false, true]));
        assert_eq!(hear("rack 7 sick=oops node=silent"), (word, vec![false, true]));
        assert_eq!(
            hear(&format!("tessera gpu0-1=free sick=none node=same:5:{file}")),
            (String::new(), vec![false, false])
        );
        assert!(!engine.has_sick("n1") && !engine.has_sick("x"));
    }

    const FILE: &str = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\n";

    #[test]
    fn a_word_is_found_behind_a_text_of_any_length() {
        let word = |extra: &str| Heard::from_extra(extra.as_bytes(), 7).word;
        for before in ["tessera", "rack 7", &"é".repeat(200)] {
            assert_eq!(word(&format!("{before} node=silent")), Some(NodeWord::Silent), "{before}");
        }
        assert_eq!((word(""), word("rack 7")), (None, None));
    }

    fn said(started: u64, file: u64) -> Said {
        Said { started, file }
    }

    #[test]
    fn a_word_counts_for_the_slurmd_that_said_it() {
        let mut engine = Engine::of_tests(FILE);
        let file = engine.files[0];
        let mut hear = |word, started| {
            engine.hear("n1", heard(word, started));
            (engine.standing("n1").unwrap(), engine.is_away("n1"), engine.word("n1").unwrap())
        };
        let same = NodeWord::Judged(Standing::Same, said(100, file));
        assert_eq!(hear(None, 100), (Standing::Silent, true, NodeWord::Silent));
        assert_eq!(hear(Some(NodeWord::Says(said(100, file))), 100), (Standing::Same, false, same));
        // Somebody's own text was written over it, then an old word.
        assert_eq!(hear(None, 100), (Standing::Same, false, same));
        assert_eq!(hear(Some(NodeWord::Says(said(50, 1))), 100), (Standing::Same, false, same));
        let other = said(100, file ^ 1);
        assert_eq!(
            hear(Some(NodeWord::Says(other)), 100),
            (Standing::Other, true, NodeWord::Judged(Standing::Other, other)),
            "the file has changed"
        );
        // Another slurmd registers, and says nothing.
        assert_eq!(hear(Some(same), 200), (Standing::Silent, true, NodeWord::Silent));
        assert_eq!(hear(Some(NodeWord::Silent), 200), (Standing::Silent, true, NodeWord::Silent));
        assert_eq!(hear(Some(NodeWord::Says(said(200, file))), 200).0, Standing::Same);
        assert_eq!(engine.standing("n2"), Some(Standing::Same), "nothing was heard of it");
        assert_eq!(engine.standing("x"), None);
    }

    #[test]
    fn a_slurmctld_that_starts_anew_judges_as_the_one_before() {
        let mut engine = Engine::of_tests(FILE);
        let file = engine.files[0];
        engine.hear("n1", heard(Some(NodeWord::Judged(Standing::Same, said(100, file))), 0));
        engine.hear("n2", heard(Some(NodeWord::Silent), 0));
        assert_eq!(["n1", "n2"].map(|node| engine.is_away(node)), [false, true]);
        // The slurmd that registers then was started without Tessera.
        engine.hear("n1", heard(Some(NodeWord::Judged(Standing::Same, said(100, file))), 150));
        assert_eq!(engine.standing("n1"), Some(Standing::Silent));
    }
}
