//! Ranks the nodes of a cluster for a request: parts of a GPU, whole GPUs, or cores alone.
//!
//! There is no I/O, clock, randomness or Slurm type here. GPUs and cores count in thousandths, costs in millionths of a GPU.
//!
//! # Problem
//! Requests arrive one by one, and each goes to a node with room. Which node should it be, so that the fewest GPUs stay empty
//! when the cluster is full?
//!
//! # Approach
//! A request goes where the capacity grows least that is expected to stay unused for ever. What stays unused depends on the
//! requests to come, and these are expected to be like those that came: a *mix*.
//!
//! # Terminology
//! - *Shape*: what a request asks for ([`Shape`]). *Mix*: shapes with their probabilities ([`Mix`]).
//! - *Residual* of a GPU with `x` left: what is expected to be left of it after [`GPU_DRAWS`] requests were drawn from the mix,
//!   each of which took its part if that was left ([`unused_of_gpu`]).
//! - *Stranded* on a node: what its lack of cores adds to the residual ([`unused_of_node`]).
//! - *Set*: the GPUs of a request for several.
//!
//! # Algorithm
//! The cost of a request on a node is a sum, after the request less before it ([`Tables::costs`]):
//! 1. the residuals of its GPUs, from the mix of those requests that accept the GPU's model: `w(k+1, x)` is the sum of
//!    `p · w(k, x - size)` over the requests for one GPU that fit, and of the remaining probability times `w(k, x)`; `w(0, x) = x`;
//! 2. what is stranded: `V(GPU left, cores left) - V(GPU left, any cores)`. `V` is the same recursion over the GPU capacity of the
//!    node as one number, in tenths of a GPU, and cores, in steps of two, after [`NODE_DRAWS`] draws, and requests for several GPUs
//!    and for cores alone count, too;
//! 3. for each shape of several GPUs for which the node has room before and not after: half of the residual that such a
//!    request would have avoided, times the probability that one is among [`SET_DRAWS`] draws.
//!
//! The cost of whole GPUs is rounded to [`WHOLE_STEP`]: other reasons decide among nodes that are about equal.
//!
//! # Mix
//! [`Mix`] counts shapes by group of accounts, each group on its own, in at most [`mix::MOST_ENTRIES`] entries. No group has more
//! than a quarter of the mix as long as three others submit. Before anything is learnt the mix is the uniform one of
//! [`Mix::weights`]. [`Schedule`] says when tables are due.
//!
//! # Cost
//! Tables take some milliseconds. [`Outlook`] builds them in steps of less than one.
//!
//! # Limits
//! MIG instances, memory of nodes and links are not part of the cost. `w` is not monotonic: half a GPU may have a larger
//! residual than an idle one. Nodes are ranked one by one; a request over several nodes takes the best of them.
//!
//! # Source
//! The residual is our own. The problem, the traces and FGD, with which `docs/figures/pack.md` compares: Weng et al., "Beware
//! of Fragmentation", USENIX ATC '23.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod capacity;
mod cost;
mod gpu;
pub mod mix;
mod node;
mod outlook;
mod schedule;
mod shape;
mod share;
mod tables;

pub use capacity::{free_milli, part_milli};
pub use cost::{Taken, WHOLE_STEP, rounded};
pub use gpu::{GPU_DRAWS, unused_of_gpu};
pub use mix::Mix;
pub use node::{Grid, NODE_DRAWS, unused_of_node};
pub use outlook::Outlook;
pub use schedule::Schedule;
pub use shape::{Models, NodeView, Shape};
pub use tables::{Building, Extent, SET_DRAWS, Tables};
