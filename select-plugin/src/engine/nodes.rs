//! The site's nodes, found by name or by the slot that a name was found to have.

use std::ops::{Index, IndexMut};

use super::{HashMap, NodeEntry};
use crate::view::{NodeSlot, NodeView};

/// Names a node. A view of a node also knows its slot: a test asks of each node many times.
pub(crate) trait Named {
    /// The node's name.
    fn name(&self) -> &str;

    /// Gives the slot, if that is known already.
    fn slot(&self) -> Option<NodeSlot> {
        None
    }
}

impl Named for str {
    fn name(&self) -> &str {
        self
    }
}

impl Named for String {
    fn name(&self) -> &str {
        self
    }
}

impl Named for NodeView {
    fn name(&self) -> &str {
        &self.name
    }

    fn slot(&self) -> Option<NodeSlot> {
        self.slot
    }
}

/// All nodes of the site.
#[derive(Default)]
pub(super) struct Nodes {
    by_name: HashMap<String, NodeSlot>,
    all: Vec<(String, NodeEntry)>,
}

impl Nodes {
    /// Adds a node, or puts it in the slot of the one of that name.
    pub(super) fn insert(&mut self, name: &str, entry: NodeEntry) {
        match self.by_name.get(name) {
            Some(slot) => self.all[slot.0].1 = entry,
            None => {
                self.by_name.insert(name.to_owned(), NodeSlot(self.all.len()));
                self.all.push((name.to_owned(), entry));
            }
        }
    }

    /// Finds a node's slot; `None`: the file does not describe it.
    pub(super) fn slot<N: Named + ?Sized>(&self, node: &N) -> Option<NodeSlot> {
        node.slot().or_else(|| self.by_name.get(node.name()).copied())
    }

    pub(super) fn get<N: Named + ?Sized>(&self, node: &N) -> Option<&NodeEntry> {
        Some(&self[self.slot(node)?])
    }

    pub(super) fn get_mut<N: Named + ?Sized>(&mut self, node: &N) -> Option<&mut NodeEntry> {
        let slot = self.slot(node)?;
        Some(&mut self[slot])
    }

    pub(super) fn name(&self, slot: NodeSlot) -> &str {
        &self.all[slot.0].0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &NodeEntry)> {
        self.all.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut NodeEntry> {
        self.all.iter_mut().map(|(_, entry)| entry)
    }
}

impl Index<NodeSlot> for Nodes {
    type Output = NodeEntry;

    fn index(&self, slot: NodeSlot) -> &NodeEntry {
        &self.all[slot.0].1
    }
}

impl IndexMut<NodeSlot> for Nodes {
    fn index_mut(&mut self, slot: NodeSlot) -> &mut NodeEntry {
        &mut self.all[slot.0].1
    }
}
