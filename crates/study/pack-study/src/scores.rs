//! Scores of a task's shape on every node, kept until the node changes.

/// Scores of all shapes seen so far.
pub(crate) struct Scores {
    /// By shape, then node: the node's version that was scored, and the score. Version 0 was never scored.
    of: Vec<Vec<(u32, f64)>>,
    version: Vec<u32>,
}

impl Scores {
    pub(crate) fn new(shapes: usize, nodes: usize) -> Self {
        Self { of: vec![Vec::new(); shapes], version: vec![1; nodes] }
    }

    /// Forgets the scores of a node.
    pub(crate) fn changed(&mut self, node: usize) {
        self.version[node] += 1;
    }

    /// Updates the scores of a shape. `score` is infinite on a node without room.
    pub(crate) fn of(&mut self, shape: usize, mut score: impl FnMut(usize) -> f64) -> &[(u32, f64)] {
        let kept = &mut self.of[shape];
        kept.resize(self.version.len(), (0, f64::INFINITY));
        for (node, (kept, &version)) in kept.iter_mut().zip(&self.version).enumerate() {
            if kept.0 != version {
                *kept = (version, score(node));
            }
        }
        kept
    }
}
