//! GPU sets by communication pattern and topology (MAPA).
//!
//! Units are GB/s (10^9 bytes per second) in one direction; inside the searches whole thousandths of it, so that
//! sums have no order and ties are ties.
//!
//! # Problem
//! Of the free GPUs of a node, which `n` should a job get whose ranks talk along the edges of a pattern, and which
//! rank goes on which GPU? A *match* is a set with such an order.
//!
//! # Approach
//! A match is scored by AggBW (Equation 1), by EffBW, which a model predicts (Equation 2 or one with bounds), and by
//! the bandwidth that stays among the GPUs it leaves (Equation 3). A policy says which of them decides. The best
//! match is exact. Sets are enumerated; orders of one are not: rings, chains and trees are solved for every set at
//! once by dynamic programming over subsets (`path`, `tree`, `ringtree`), stars and cliques by counting, Equation 2 by
//! looking for the counts with the best score (`wanted`), and only other patterns by branch and bound (`general`), with
//! a limit that the answer tells of.
//!
//! # Worst case
//! 16 free GPUs; the bound of each search is in its module. `benches/mapa.rs` measures them,
//! `docs/figures/mapa.md` has the figures. More than 16 free GPUs are taken where all links among them are alike.
//!
//! # Source
//! Ranganath et al., MAPA, SC'21, arXiv:2110.03214; socal-ucr/MAPA@15e58ab for what the paper leaves open.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod bytes;
mod climb;
mod fit;
mod form;
mod form_sums;
mod general;
mod memo;
mod model;
mod number;
mod path;
mod policy;
mod ranking;
mod ranks;
mod ringtree;
mod sim;
mod slowest;
mod space;
mod stock;
mod swaps;
mod tables;
mod ties;
mod topo;
mod tree;
mod wanted;

pub use general::MOST_STEPS;
pub use memo::Memo;
pub use model::{BandwidthModel, Bounds, Coefficients, Scores, THETA, equation_2, score};
pub use policy::{Choice, NoChoice, Query, choose};
pub use sim::{JobFileError, Patience, Ran, Rules, SimJob, parse_jobs, quartiles, simulate};
pub use space::MOST_FREE;
pub use stock::{StockRule, stock};
pub use ties::count_ties;
