//! A GPU that exists only as arithmetic: how fast it runs applications under a power cap, and what their profiler says.
//!
//! # Problem
//!
//! The power models of the crate `power-study` need runs to be fitted to and to be judged by. Real ones need an A100 for a day.
//! Here they come from a physical picture that knows nothing of the model: no coefficient, no basis function, no counter
//! enters a speed.
//!
//! # Approach
//!
//! - One clock for the whole chip, in steps of 15 MHz: the highest at which the draw stays below the cap.
//! - A draw per cause: idle, every GPC in use, vector units, tensor cores, DRAM. All but idle and DRAM follow the square of
//!   the voltage.
//! - An iteration takes as long as its slowest resource (compute, L2, DRAM; a soft maximum), and then its serial part.
//! - Inside a GPU instance, tenants share L2 and DRAM: hit rates fall, and where DRAM is over-subscribed, all of its users
//!   wait by the same factor. Between GPU instances, only the clock is shared.
//!
//! # Terminology
//!
//! - *Tenant*: an application on some GPCs of one GPU instance.
//! - *Module*: an L2 slice with its share of DRAM; an A100 has 8.
//! - *Share*: part of the time of an iteration alone on the whole GPU at the highest clock.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod app;
mod board;
mod run;

pub use app::{App, Class, Tensor, apps, find};
pub use board::{Board, Draw};
pub use run::{Running, Tenant, counters, run};
