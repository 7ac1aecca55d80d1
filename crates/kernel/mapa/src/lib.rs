//! GPU sets by communication pattern and topology (MAPA).
//!
//! Units are GB/s (10^9 bytes per second) in one direction; the searches count whole MB/s, so that sums do not depend on
//! their order and ties are exact.
//!
//! # Problem
//! Of the free GPUs of a node, which `n` should a job get whose ranks talk along the edges of a pattern, and which
//! rank goes on which GPU? A *match* is a set with such an order.
//!
//! # Approach
//! A match is scored by AggBW (Equation 1), by EffBW, which a model predicts (Equation 2 or one with bounds), and by
//! the bandwidth that stays among the GPUs it leaves (Equation 3). A policy says which of them decides ([`choose`]).
//!
//! All patterns have one search. Among few orders it tries every one that can still win, and the answer is exact: eight
//! ranks on eight GPUs are few, and so is any pair of 16 GPUs. Among more it takes a limited number of steps, and an answer
//! that is not proven says so ([`Match::exact`]). `mapa-study` has the exact searches for up to 16 GPUs and compares
//! (`docs/figures/mapa.md`).
//!
//! # Worst case
//! 16 free GPUs: some ten milliseconds. More than 16 free GPUs are accepted if all links among them are alike.
//!
//! # Beside the policies
//! [`Memo`] remembers answers.
//!
//! # Source
//! Ranganath et al., MAPA, SC'21, arXiv:2110.03214; socal-ucr/MAPA@15e58ab for what the paper leaves open.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod bipartition;
mod edges;
mod limits;
mod memo;
mod model;
mod policy;
mod query;
mod search;

pub use edges::{Edge, PatternError, edges_of};
pub use limits::MOST_FREE;
pub use memo::Memo;
pub use model::{equation_2, score};
pub use policy::{choose, has_few_orders};
pub use query::{Match, NoMatch, Query};
