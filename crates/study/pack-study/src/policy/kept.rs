//! Costs that are kept until a node changes.

use cluster_rank::Shape;

use super::rank::Place;

/// Costs of the shapes that were ranked last, by node. It has room for so many shapes as it was made for; the one that was
/// not asked for the longest gives way.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// The one that was asked for last is the last.
    shapes: Vec<OfShape>,
    most: usize,
    /// By node. What was never ranked has version 0.
    versions: Vec<u32>,
}

#[derive(Clone, Debug)]
struct OfShape {
    shape: Shape,
    places: Vec<(u32, Option<Place>)>,
}

impl Kept {
    /// Makes room for the costs of `shapes` shapes, at least one, on `nodes` nodes.
    pub(crate) fn new(shapes: usize, nodes: usize) -> Self {
        Self { shapes: Vec::new(), most: shapes.max(1), versions: vec![1; nodes] }
    }

    /// Forgets the costs on a node.
    pub(crate) fn changed(&mut self, node: usize) {
        let mut wrapped = false;
        if let Some(version) = self.versions.get_mut(node) {
            *version = version.wrapping_add(1);
            wrapped = *version == 0;
        }
        if wrapped {
            self.forget();
        }
    }

    /// Forgets everything: the tables are others.
    pub(crate) fn forget(&mut self) {
        self.shapes.clear();
        self.versions.fill(1);
    }

    /// Lists the places of a shape by node. `rank` is asked about nodes that have changed.
    pub(crate) fn places(
        &mut self,
        shape: &Shape,
        mut rank: impl FnMut(usize) -> Option<Place>,
    ) -> impl Iterator<Item = Option<Place>> {
        let known = self.shapes.iter().position(|one| one.shape == *shape);
        let mut one = match known {
            Some(at) => self.shapes.remove(at),
            None if self.shapes.len() == self.most => {
                OfShape { shape: *shape, ..self.shapes.remove(0).emptied() }
            }
            None => OfShape { shape: *shape, places: vec![(0, None); self.versions.len()] },
        };
        for (node, (place, &version)) in one.places.iter_mut().zip(&self.versions).enumerate() {
            if place.0 != version {
                *place = (version, rank(node));
            }
        }
        self.shapes.push(one);
        self.shapes.last().into_iter().flat_map(|one| one.places.iter().map(|place| place.1))
    }
}

impl OfShape {
    fn emptied(mut self) -> Self {
        self.places.fill((0, None));
        self
    }
}
