//! The exact searches: which set of vertices, and in which order, has the best match for a pattern.
//!
//! [`search_for`] gives the search for a pattern. It works on a [`Space`], the free GPUs numbered from 0 as vertices.
//! Sets of vertices are bit masks, bandwidths whole MB/s.

mod branch_and_bound;
mod budget;
mod by_slowest_edge;
mod bytes;
mod contest;
mod edge_graph;
mod equation2;
mod fast_links;
mod hill_climb;
mod level_tables;
mod link_classes;
mod number;
mod path;
mod pattern_search;
mod patterns;
mod ring_tree;
mod set_positions;
mod space;
mod speed_ladder;
mod subset_search;
mod subsets;
mod swaps;
mod tree;

pub(crate) use budget::Budget;
pub(crate) use contest::{Contest, KnownOrder, LinksTaken, Winner};
pub(crate) use pattern_search::{Aim, PatternSearch};
pub(crate) use patterns::search_for;
pub(crate) use space::Space;
pub(crate) use subsets::{bits, subsets};
