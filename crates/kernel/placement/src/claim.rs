//! Chooses the devices of the pool that an isolated job should wait for.
//!
//! # Problem
//! New jobs of GPU tasks join a pool while it has seats, so its devices may never be empty: an isolated job that nothing else
//! keeps waiting would starve (CASE for MIG, section 2.2, prefers isolated jobs for this reason). Choose devices that no new
//! job of GPU tasks then gets, so that the isolated job has its place as soon as possible, and leave the pool one device.
//!
//! # Approach
//! Empty the devices one after another in the order in which the last of their jobs ends, until the request fits. The last
//! one emptied decides when that is; of the others, those that are not needed stay in the pool.

use geometry::JobId;
use node_state::{Ask, Node, Policy};
use protocol::ShareOn;

use crate::decide::fits;

/// Devices of the pool to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The devices, never none.
    pub devices: Vec<ShareOn>,
    /// End of the last of their jobs, in the unit of `end`.
    pub free_at: i64,
}

/// The devices that the job of `ask` should wait for; `None` where it fits already, where other jobs are in its way, or
/// where it would have to wait for the whole pool. `end` tells when a job ends. Devices that another job has claimed are not
/// considered.
#[must_use]
pub fn await_pool(node: &Node, ask: &Ask, policy: &Policy, end: &dyn Fn(JobId) -> i64) -> Option<Awaited> {
    let own = |on| node.claim_on(on).is_none_or(|claim| claim.job == ask.job);
    let ends = |jobs: &[node_state::Seat]| jobs.iter().map(|seat| end(seat.job)).max().unwrap_or(i64::MAX);
    let mut pool: Vec<(i64, ShareOn)> =
        node.pool().filter(|device| own(device.on)).map(|device| (ends(device.jobs), device.on)).collect();
    // The sort is stable: ties go to the lowest GPU, then the lowest start.
    pool.sort_by_key(|(end, _)| *end);
    let all: Vec<ShareOn> = pool.iter().map(|(_, on)| *on).collect();
    let fits_without = |devices: &[ShareOn]| {
        let mut node = node.clone();
        node.empty_pool(devices);
        fits(&node, ask, policy)
    };
    if all.is_empty() || fits_without(&[]) || !fits_without(&all) {
        return None;
    }
    let needed = (1..=all.len()).find(|n| fits_without(&all[..*n]))?;
    let mut devices = all[..needed].to_vec();
    for i in (0..devices.len()).rev() {
        let spared = devices.remove(i);
        if !fits_without(&devices) {
            devices.insert(i, spared);
        }
    }
    (devices.len() < all.len()).then_some(Awaited { devices, free_at: pool[needed - 1].0 })
}
