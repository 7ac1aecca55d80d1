//! CASE Algorithm 2: memory and compute are hard.
//!
//! The algorithm deals a task's blocks one by one to the SMs, as the hardware does. That takes a step per block, and tasks
//! have up to 2^64 of them. Dealing cyclically gives every SM with room one block per round, so the result has a closed
//! form: all SMs get `min(room, rounds)`, and the first few after the pointer that have more room get one more. A device
//! then costs two passes over its SMs, however large the grid.

use std::collections::HashMap;

use crate::device::{Device, DeviceId};
use crate::policy::{Policy, Verdict, on_bound, wait_or_refuse};
use crate::pool::{Held, Pool};
use crate::task::{Ask, Need, TaskId};

/// Free block slots and warps of one SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sm {
    slots: u16,
    warps: u16,
}

/// The SMs of one device.
#[derive(Clone, Debug)]
struct Sms {
    free: Vec<Sm>,
    /// Sums of `free`: most tasks that do not fit are seen from them.
    slots: u64,
    warps: u64,
    /// The SM behind the one that got the last block.
    next: usize,
    /// A task larger than the empty device, which nobody joins.
    alone: Option<TaskId>,
}

/// Device, blocks and warps that one task holds.
#[derive(Clone, Debug)]
enum Hold {
    /// Blocks on each SM of a device, and the warps of each block.
    Blocks { device: DeviceId, blocks: Vec<u16>, warps: u16 },
    /// A device of its own.
    Alone(DeviceId),
}

/// The way in which a task takes SMs.
#[derive(Clone, Copy, Debug, Default)]
enum Way {
    #[default]
    Dealt,
    Alone,
    WithoutSms,
}

/// Devices in order, the first that has free memory, block slots and warps for all blocks at once.
///
/// Memory may equal what is free. Each block goes to the next SM, cyclically from the device's pointer (first 0), that has
/// a free slot and enough free warps, and the pointer moves behind it. A free returns the same SMs and leaves the pointer.
/// A task that even the empty SMs could not hold takes a device without tasks and has it alone; as printed, the algorithm
/// would never place it, as 15 of the 17 Rodinia commands on a V100. A task of a job that holds already waits for memory
/// alone: its own tasks may hold the SMs. It holds none itself where no device has enough of them.
///
/// Source: CASE, Algorithm 2 and section 4.
#[derive(Debug, Default)]
pub struct Alg2 {
    devices: Vec<Sms>,
    holds: HashMap<TaskId, Hold>,
    /// The way in which the last grant takes SMs, between `place` and `granted`.
    way: Way,
    /// Blocks per SM, if they were dealt.
    dealt: Vec<u16>,
    /// Next place of the pointer after that grant.
    dealt_next: usize,
}

impl Sms {
    fn new(device: &Device) -> Sms {
        let empty = Sm { slots: device.blocks_per_sm, warps: device.warps_per_sm };
        let sum = |per_sm: u16| u64::from(per_sm) * u64::from(device.sms);
        let free = vec![empty; device.sms as usize];
        Sms { free, slots: sum(empty.slots), warps: sum(empty.warps), next: 0, alone: None }
    }
}

/// Number of blocks of so many warps that fit an SM now. A division per SM would be most of a decision: one reciprocal,
/// rounded up, gives the same quotients, because its error times an SM's warps stays below 1.
struct BlocksPerSm(u64);

impl BlocksPerSm {
    const SHIFT: u32 = 32;

    /// For blocks of `warps` warps, at least 1.
    fn of(warps: u16) -> BlocksPerSm {
        BlocksPerSm((1_u64 << BlocksPerSm::SHIFT).div_ceil(u64::from(warps)))
    }

    fn on(&self, sm: Sm) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "at most the SM's warps")]
        let by_warps = ((u64::from(sm.warps) * self.0) >> BlocksPerSm::SHIFT) as u16;
        sm.slots.min(by_warps)
    }
}

/// Tells whether the empty device holds every block of `need`.
fn holds_when_empty(device: &Device, need: &Need, warps: u16) -> bool {
    let per_sm = device.blocks_per_sm.min(device.warps_per_sm / warps);
    need.blocks() <= u64::from(per_sm) * u64::from(device.sms)
}

/// Deals `blocks` cyclically from `sms.next`. Returns where the pointer stands then; `None` if not all fit. `dealt` is the
/// result, one number per SM.
fn deal(sms: &Sms, blocks: u64, warps: u16, dealt: &mut Vec<u16>) -> Option<usize> {
    dealt.clear();
    if blocks > sms.slots || blocks.saturating_mul(warps.into()) > sms.warps {
        return None;
    }
    let room = BlocksPerSm::of(warps);
    dealt.extend(sms.free.iter().map(|sm| room.on(*sm)));
    // `rounds` full rounds leave `rest` blocks, fewer than the SMs that still have room. The first rounds, in which all SMs
    // have room, are taken at once.
    let all = u64::from(dealt.iter().copied().min()?);
    let n = dealt.len() as u64;
    let mut rounds = u16::try_from(all.min(blocks / n)).unwrap_or(u16::MAX);
    let mut rest = blocks - u64::from(rounds) * n;
    while rest > 0 {
        let open = dealt.iter().map(|room| u32::from(*room > rounds)).sum::<u32>().into();
        if open == 0 {
            return None;
        }
        if rest < open {
            break;
        }
        rest -= open;
        rounds += 1;
    }
    Some(settle(dealt, sms.next, rounds, rest))
}

/// Turns room per SM into blocks per SM: `rounds` for each that has the room, and one more for the first `rest` from
/// `start` that have more. Returns the pointer behind the last block.
fn settle(dealt: &mut [u16], start: usize, rounds: u16, mut rest: u64) -> usize {
    let n = dealt.len();
    let mut last = None;
    if rest == 0 {
        // The last block went to the last SM of the last full round.
        let in_last_round = |i: &usize| rounds > 0 && dealt[*i] >= rounds;
        last = (0..start).rev().chain((start..n).rev()).find(in_last_round);
        dealt.iter_mut().for_each(|room| *room = (*room).min(rounds));
    } else {
        let (head, tail) = dealt.split_at_mut(start);
        for (i, room) in (start..).zip(tail).chain((0..).zip(head)) {
            let has_more = rest > 0 && *room > rounds;
            rest -= u64::from(has_more);
            *room = (*room).min(rounds) + u16::from(has_more);
            if has_more {
                last = Some(i);
            }
        }
    }
    last.map_or(start, |last| if last + 1 == n { 0 } else { last + 1 })
}

impl Alg2 {
    /// Tells whether the device has memory and SMs for the task; then `dealt` and `way` say how it takes them.
    fn takes(&mut self, id: DeviceId, held: &Held, ask: &Ask) -> bool {
        has_memory(id, held, ask) && self.has_sms(id, held, ask.need, held.tasks())
    }

    /// Tells whether the device, with `others` tasks, has the SMs.
    fn has_sms(&mut self, id: DeviceId, held: &Held, need: Need, others: usize) -> bool {
        let sms = &self.devices[id.0];
        #[expect(clippy::cast_possible_truncation, reason = "1 to 32")]
        let warps = need.warps_per_block() as u16;
        if !holds_when_empty(held.device(), &need, warps) {
            self.way = Way::Alone;
            return others == 0;
        }
        if sms.alone.is_some() {
            return false;
        }
        match deal(sms, need.blocks(), warps, &mut self.dealt) {
            Some(next) => {
                self.dealt_next = next;
                self.way = Way::Dealt;
                true
            }
            None => false,
        }
    }

    /// The first device with memory for a task that does not wait for SMs.
    fn memory_alone(&mut self, pool: &Pool, ask: &Ask) -> Option<DeviceId> {
        self.way = Way::WithoutSms;
        pool.iter().find(|(id, held)| ask.holds && has_memory(*id, held, ask)).map(|(id, _)| id)
    }
}

fn has_memory(id: DeviceId, held: &Held, ask: &Ask) -> bool {
    held.room(id, ask).is_some_and(|room| ask.need.mem() <= room)
}

impl Policy for Alg2 {
    fn name(&self) -> &'static str {
        "alg2"
    }

    fn place(&mut self, pool: &Pool, ask: &Ask) -> Verdict {
        if self.devices.is_empty() {
            self.devices = pool.devices().map(|held| Sms::new(held.device())).collect();
        }
        if let Some(device) = ask.bound {
            return on_bound(pool, ask, device);
        }
        let found = pool.iter().find(|(id, held)| self.takes(*id, held, ask)).map(|(id, _)| id);
        match found.or_else(|| self.memory_alone(pool, ask)) {
            Some(id) => Verdict::Grant(id),
            None => wait_or_refuse(pool, ask),
        }
    }

    fn granted(&mut self, _pool: &Pool, ask: &Ask, device: DeviceId) {
        let Some(sms) = self.devices.get_mut(device.0) else { return };
        match self.way {
            _ if ask.bound.is_some() => return,
            Way::WithoutSms => return,
            Way::Alone => {
                sms.alone = Some(ask.task);
                self.holds.insert(ask.task, Hold::Alone(device));
                return;
            }
            Way::Dealt => {}
        }
        #[expect(clippy::cast_possible_truncation, reason = "1 to 32")]
        let warps = ask.need.warps_per_block() as u16;
        sms.slots -= ask.need.blocks();
        sms.warps -= ask.need.blocks() * u64::from(warps);
        for (sm, blocks) in sms.free.iter_mut().zip(&self.dealt) {
            sm.slots -= blocks;
            sm.warps -= blocks * warps;
        }
        sms.next = self.dealt_next;
        let blocks = self.dealt.clone();
        self.holds.insert(ask.task, Hold::Blocks { device, blocks, warps });
    }

    fn restored(&mut self, pool: &Pool, ask: &Ask, device: DeviceId) {
        // The pool counts the task already.
        let others = pool.get(device).map(|held| held.tasks().saturating_sub(1));
        let has_sms =
            pool.get(device).zip(others).is_some_and(|(held, n)| self.has_sms(device, held, ask.need, n));
        if !has_sms {
            self.way = Way::WithoutSms;
        }
        self.granted(pool, ask, device);
    }

    fn came(&mut self, device: DeviceId, held: &Held) {
        if self.devices.len() <= device.0 {
            self.devices.resize(device.0 + 1, Sms::new(held.device()));
        }
        self.devices[device.0] = Sms::new(held.device());
    }

    fn freed(&mut self, task: TaskId) {
        match self.holds.remove(&task) {
            Some(Hold::Alone(device)) => self.devices[device.0].alone = None,
            Some(Hold::Blocks { device, blocks, warps }) => {
                let sms = &mut self.devices[device.0];
                for (sm, blocks) in sms.free.iter_mut().zip(blocks) {
                    sms.slots += u64::from(blocks);
                    sms.warps += u64::from(blocks * warps);
                    sm.slots += blocks;
                    sm.warps += blocks * warps;
                }
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The algorithm as the paper says it, a block at a time.
    fn block_by_block(sms: &Sms, blocks: u64, warps: u16) -> Option<(Vec<u16>, usize)> {
        let mut free = sms.free.clone();
        let mut dealt = vec![0; free.len()];
        let mut next = sms.next;
        for _ in 0..blocks {
            let turn = (0..free.len()).map(|i| (next + i) % free.len());
            let sm = turn.clone().find(|i| free[*i].slots > 0 && free[*i].warps >= warps)?;
            free[sm].slots -= 1;
            free[sm].warps -= warps;
            dealt[sm] += 1;
            next = (sm + 1) % free.len();
        }
        Some((dealt, next))
    }

    #[test]
    fn a_reciprocal_divides() {
        for warps in 1..=32 {
            let room = BlocksPerSm::of(warps);
            for free in (0..=200).chain(u16::MAX - 100..=u16::MAX) {
                assert_eq!(room.on(Sm { slots: u16::MAX, warps: free }), free / warps, "{free} / {warps}");
            }
        }
    }

    proptest! {
        #[test]
        fn dealing_at_once_is_dealing_block_by_block(
            free in prop::collection::vec((0u16..=32, 0u16..=64), 1..20),
            start in 0usize..20,
            blocks in 1u64..400,
            warps in 1u16..=32,
        ) {
            let free: Vec<Sm> = free.into_iter().map(|(slots, warps)| Sm { slots, warps }).collect();
            let slots = free.iter().map(|sm| u64::from(sm.slots)).sum();
            let all_warps = free.iter().map(|sm| u64::from(sm.warps)).sum();
            let sms = Sms { next: start % free.len(), slots, warps: all_warps, free, alone: None };
            let mut dealt = Vec::new();
            let next = deal(&sms, blocks, warps, &mut dealt);
            prop_assert_eq!(next.map(|next| (dealt, next)), block_by_block(&sms, blocks, warps));
        }
    }
}
