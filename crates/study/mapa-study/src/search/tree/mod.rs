//! Trees: dynamic programming over subsets, one table per shape of subtree.
//!
//! # Problem
//! Which rank of a tree goes on which GPU of a set, so that the sum over the edges is largest, for every set at once.
//!
//! # Algorithm
//! `rooted[shape][set][v]` is the best subtree on exactly `set` with its root on `v`. `hung[shape][set][v]` is the same
//! hanging below `v`, which is not in the set. A root's children are added one after the other: the best way to hang
//! `k` children below `v` on a set is the best split of the set between the first `k - 1` and the last. Subtrees of
//! one shape share a table: a binary tree of 16 ranks has five shapes.
//!
//! # Worst case
//! Steps are (set, split) pairs of 16 lanes. 16 free GPUs, NCCL's tree: 12 ranks, 960 960 pairs.

mod cell;
mod shape;
mod table;

pub(super) use shape::TreeShape;
pub(super) use table::{feasible, sums, sums_within};
