//! The searches of [`choose`](crate::choose): which set of vertices, and in which order, has the best match.
//!
//! They work on a [`Space`], the free GPUs numbered from 0 as vertices. Sets of vertices are bit masks, bandwidths whole
//! MB/s. Where few orders exist ([`Ranks::is_few`]) every search is exact; elsewhere it takes a limited number of steps.

mod budget;
mod by_slowest;
mod by_tally;
mod climb;
mod contest;
mod fast_links;
mod orders;
mod ranks;
mod space;
mod speed_ladder;
mod subsets;
mod symmetry;
mod tally;

pub(crate) use budget::Budget;
pub(crate) use contest::{Contest, KnownOrder, LinksTaken, Winner, least_missed};
pub(crate) use ranks::Ranks;
pub(crate) use space::Space;
pub(crate) use tally::{Score, Tally};
pub(crate) use {by_slowest::SlowestSearch, by_tally::TallySearch};
