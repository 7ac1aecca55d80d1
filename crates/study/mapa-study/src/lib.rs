//! The laboratory of [`mapa`]: which GPU set is the best one, proven, and what MAPA's paper measured.
//!
//! No plugin and no daemon links this crate. `mapa` chooses in slurmctld by short searches; here are the long ones, which
//! tell how good its choices are.
//!
//! # Approach
//! Sets are enumerated, but orders of one set are not; each pattern has its own search below `search/patterns`. Dynamic
//! programming over subsets solves rings, chains and trees for every set at once (`path`, `tree`, `ring_tree`). Counting
//! solves stars and cliques. Under Equation 2 the search looks for the counts of links with the best score
//! (`equation2`). Only edge lists that are no tree need branch and bound (`branch_and_bound`), within a limit; an answer
//! that reached it says so ([`Match::exact`](mapa::Match::exact)).
//!
//! # Worst case
//! 16 free GPUs; the module of each search states its bound. `benches/mapa.rs` measures them, `docs/figures/mapa.md` has
//! the figures.
//!
//! # In addition
//! [`simulate`] is MAPA's simulator, [`stock`](stock()) Slurm's own choice for comparison, [`tables`] makes what `tessera lab papers
//! mapa` prints.
//!
//! # Source
//! Ranganath et al., MAPA, SC'21, arXiv:2110.03214; socal-ucr/MAPA@15e58ab for what the paper leaves open.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod exact;
mod figures;
mod first_set;
mod limits;
mod search;
mod simulator;
mod stock;
mod tied_sets;
mod unanswered;

pub use exact::choose;
pub use figures::tables;
pub use simulator::{JobFileError, Patience, Ran, Rules, SimJob, parse_jobs, quartiles, simulate};
pub use stock::{StockRule, stock};
pub use tied_sets::count_ties;
pub use unanswered::Unanswered;
