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
//! The best match is exact. Sets are enumerated, but orders of one set are not; each pattern has its own search below
//! `search/patterns`. Dynamic programming over subsets solves rings, chains and trees for every set at once (`path`,
//! `tree`, `ring_tree`). Counting solves stars and cliques. Under Equation 2 the search looks for the counts of links with
//! the best score (`equation2`). Only edge lists that are no tree need branch and bound (`branch_and_bound`), within a
//! limit; an answer that reached it says so ([`Match::exact`]).
//!
//! # Worst case
//! 16 free GPUs; the module of each search states its bound. `benches/mapa.rs` measures them, `docs/figures/mapa.md` has
//! the figures. More than 16 free GPUs are accepted if all links among them are alike.
//!
//! # Beside the policies
//! [`simulate`] is MAPA's simulator, [`stock`](stock()) Slurm's own choice for comparison, [`Memo`] remembers answers.
//!
//! # Source
//! Ranganath et al., MAPA, SC'21, arXiv:2110.03214; socal-ucr/MAPA@15e58ab for what the paper leaves open.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod bipartition;
mod limits;
mod memo;
mod model;
mod policy;
mod query;
mod search;
mod simulator;
mod stock;
mod tied_sets;

pub use limits::{MOST_FREE, MOST_STEPS};
pub use memo::Memo;
pub use model::{equation_2, score};
pub use policy::choose;
pub use query::{Match, NoMatch, Query};
pub use simulator::{JobFileError, Patience, Ran, Rules, SimJob, parse_jobs, quartiles, simulate};
pub use stock::{StockRule, stock};
pub use tied_sets::count_ties;
