//! The site's nodes, found by name or by the place in the engine that a name was found to have.

use std::ops::{Index, IndexMut};

use super::{HashMap, NodeEntry};
use crate::view::NodeView;

/// A node's place in the engine. It is the node's as long as the configuration holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(usize);

/// Names a node. A view of a node also knows its place: a test asks of each node many times.
pub(crate) trait Named {
    /// The node's name.
    fn name(&self) -> &str;

    /// Its place, where that is known already.
    fn place(&self) -> Option<Place> {
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

    fn place(&self) -> Option<Place> {
        self.place
    }
}

/// All nodes of the site.
#[derive(Default)]
pub(super) struct Nodes {
    by_name: HashMap<String, Place>,
    all: Vec<(String, NodeEntry)>,
}

impl Nodes {
    /// Adds a node, or puts it in the place of the one of that name.
    pub(super) fn insert(&mut self, name: &str, entry: NodeEntry) {
        match self.by_name.get(name) {
            Some(place) => self.all[place.0].1 = entry,
            None => {
                self.by_name.insert(name.to_owned(), Place(self.all.len()));
                self.all.push((name.to_owned(), entry));
            }
        }
    }

    /// Finds a node's place; `None`: the file does not describe it.
    pub(super) fn place<N: Named + ?Sized>(&self, node: &N) -> Option<Place> {
        node.place().or_else(|| self.by_name.get(node.name()).copied())
    }

    pub(super) fn get<N: Named + ?Sized>(&self, node: &N) -> Option<&NodeEntry> {
        Some(&self[self.place(node)?])
    }

    pub(super) fn get_mut<N: Named + ?Sized>(&mut self, node: &N) -> Option<&mut NodeEntry> {
        let place = self.place(node)?;
        Some(&mut self[place])
    }

    /// The name of the node in a place.
    pub(super) fn name(&self, place: Place) -> &str {
        &self.all[place.0].0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &NodeEntry)> {
        self.all.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut NodeEntry> {
        self.all.iter_mut().map(|(_, entry)| entry)
    }
}

impl Index<Place> for Nodes {
    type Output = NodeEntry;

    fn index(&self, place: Place) -> &NodeEntry {
        &self.all[place.0].1
    }
}

impl IndexMut<Place> for Nodes {
    fn index_mut(&mut self, place: Place) -> &mut NodeEntry {
        &mut self.all[place.0].1
    }
}
