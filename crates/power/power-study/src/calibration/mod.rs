//! Measuring what a model is fitted to: which runs are needed, what counts as one, and what is left to do.
//!
//! # Problem
//!
//! A fit needs each application alone on each part and some applications together in each state, under every cap, and each
//! application alone on a whole GPU as reference. Applications that run together differ in length, so a run counts only
//! where every other one was there from its begin to its end.
//!
//! # Approach
//!
//! Each *setting* (state, cap, applications) is measured by one job per application. A job starts its application again and
//! again; each such *lap* has a begin and an end. A setting is measured when each application has [`LAPS`] laps beside all
//! others, and its time is their median.
//!
//! Source: Arima et al., section 5.1.3.

mod apps;
mod design;
mod lap;

pub use apps::{App, AppsError, parse_apps};
pub use design::{Design, Setting, UnevenGpu, check, settings};
pub use lap::{LAPS, Lap, Log, MAX_PAUSE_MS, Progress, beside, progress};
