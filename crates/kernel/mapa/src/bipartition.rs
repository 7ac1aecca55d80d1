//! The topo-aware policy: recursive bi-partitioning.
//!
//! The node is halved along its CPU sockets, each half again, down to single GPUs. A job goes into the half that has
//! room for it, the fuller one of two; without such a half it takes all of the one with more free GPUs and the rest
//! from the other. In effect a job stays below one socket while it can.
//!
//! It ignores links.
//!
//! Source: MAPA section 4, "Baseline Scheduling Policies", after Amaral et al., SC'17.

use geometry::GpuIndex;
use topology::GpuSet;

/// `n` of the free GPUs, the lowest ones among equals. `gpus` are all of the node, `socket` those per CPU socket.
pub(super) fn lowest(gpus: usize, socket: usize, free: GpuSet, n: usize) -> GpuSet {
    let mut taken = GpuSet::EMPTY;
    take(0, gpus, socket.max(1), free, n, &mut taken);
    taken
}

fn free_in(free: GpuSet, from: usize, to: usize) -> usize {
    free.iter().filter(|g| (from..to).contains(&usize::from(g.0))).count()
}

fn take(from: usize, to: usize, socket: usize, free: GpuSet, n: usize, taken: &mut GpuSet) {
    let has = free_in(free, from, to);
    if n == 0 || has == 0 {
        return;
    }
    if to - from == 1 {
        taken.insert(GpuIndex(u16::try_from(from).unwrap_or(u16::MAX)));
        return;
    }
    // On a socket boundary while there is one inside.
    let half = (to - from).div_ceil(2);
    let middle = if to - from > socket { from + half.div_ceil(socket) * socket } else { from + half };
    let middle = middle.clamp(from + 1, to - 1);
    let (low, high) = (free_in(free, from, middle), free_in(free, middle, to));
    let low_first = match (low >= n, high >= n) {
        (true, true) => low <= high,
        (true, false) => true,
        (false, true) => false,
        (false, false) => low >= high,
    };
    let (first, then) =
        if low_first { ((from, middle), (middle, to)) } else { ((middle, to), (from, middle)) };
    let in_first = n.min(if low_first { low } else { high });
    take(first.0, first.1, socket, free, in_first, taken);
    take(then.0, then.1, socket, free, n - in_first, taken);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(free: u64, n: usize, expect: &str) {
        assert_eq!(lowest(8, 4, GpuSet::from_bits(free), n).to_string(), expect);
    }

    #[test]
    fn stays_below_a_socket() {
        check(0xff, 2, "0-1");
        check(0xff, 5, "0-4");
        check(0b1111_0001, 2, "4-5");
        // The fuller half that has room.
        check(0b1111_0011, 2, "0-1");
        check(0b0111_0011, 4, "0,4-6");
        check(0b1000_0001, 2, "0,7");
    }
}
