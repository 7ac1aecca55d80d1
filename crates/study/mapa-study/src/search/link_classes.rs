//! The classes that Equation 2 counts links by, as array indices: 0 double NVLink, 1 single NVLink, 2 no NVLink.

use topology::LinkClass;

use super::number::{Byte, Number, Weights};
use super::space::Space;
use super::subsets::bits;
use crate::limits::MOST_FREE;

/// The index of a class.
#[inline]
pub(super) fn class_index(class: LinkClass) -> usize {
    match class {
        LinkClass::Double => 0,
        LinkClass::Single => 1,
        LinkClass::Pcie => 2,
    }
}

/// The class of each link by vertex and vertex, and by class and vertex the vertices linked so.
pub(super) type Classes = ([[u8; MOST_FREE]; MOST_FREE], [[u32; MOST_FREE]; 3]);

/// The classes of all links of a space; a vertex has none to itself.
pub(super) fn classes(space: &Space) -> Classes {
    let (mut classes, mut near) = ([[2; MOST_FREE]; MOST_FREE], [[0; MOST_FREE]; 3]);
    for a in 0..space.len() {
        for b in (0..space.len()).filter(|b| *b != a) {
            let class: u8 = match space.class[a][b] {
                LinkClass::Double => 0,
                LinkClass::Single => 1,
                LinkClass::Pcie => 2,
            };
            classes[a][b] = class;
            near[usize::from(class)][a] |= 1 << b;
        }
    }
    (classes, near)
}

/// Lack of a link of each class, compared with the best, by [`class_index`]; links of a class with `None` are not used.
pub(super) type Lacks = [Option<u32>; 3];

/// The links among some vertices, when they lack something by their class.
pub(super) struct ClassLinks<'a> {
    pub(super) space: &'a Space,
    pub(super) vertices: u32,
    pub(super) lacks: Lacks,
}

impl ClassLinks<'_> {
    /// Returns the lack of each link; vertices are numbered within the set.
    pub(super) fn weights(&self) -> Weights<Byte> {
        let part = self.space.part(self.vertices);
        let m = part.len();
        let of = |a: usize, b: usize| {
            let lacks = self.lacks[class_index(part.class[a][b])].filter(|_| a != b && b < m);
            lacks.map_or(Byte::NONE, Byte::of)
        };
        Weights::new((0..m).map(|a| std::array::from_fn(|b| of(a, b))).collect())
    }

    /// An order over vertices as they are numbered within the set, numbered as in the space.
    pub(super) fn in_space(&self, order: Vec<usize>) -> Vec<usize> {
        let members: Vec<usize> = bits(self.vertices).collect();
        order.into_iter().map(|v| members[v]).collect()
    }
}
