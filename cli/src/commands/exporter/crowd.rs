//! Who is connected, and who has to go for the next.
//!
//! A connection that has not sent its request yet goes before one that has. A scrape sends its request at once, so whoever holds
//! connections without asking loses them to it.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) all: usize,
    /// Most connections of one address.
    pub(super) each: usize,
}

/// Connections at most, if there are file descriptors for them.
const ALL: u64 = 256;
/// File descriptors for everything else: Slurm's commands, tessera.toml, the log.
const OTHERS: u64 = 128;
/// How many addresses it takes to have all connections.
const ADDRESSES: u64 = 4;

impl Limits {
    /// File descriptors that a process needs for as many connections as there ever are.
    pub(super) const FILES: u64 = ALL + OTHERS;

    /// For a process that may have so many files open.
    pub(super) fn with_files(files: u64) -> Self {
        let all = files.saturating_sub(OTHERS).max(files / 4).clamp(ADDRESSES, ALL);
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Self { all: count(all), each: count(all / ADDRESSES) }
    }
}

/// A connection that is being served.
struct Guest {
    from: IpAddr,
    /// True once its request has come.
    asked: bool,
}

/// The connections, by number, the oldest first.
pub(super) struct Crowd {
    limits: Limits,
    next: u64,
    guests: BTreeMap<u64, Guest>,
}

impl Crowd {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, next: 0, guests: BTreeMap::new() }
    }

    /// Counts a connection in: its number, and the number of the one that has to go for it.
    pub(super) fn enter(&mut self, from: IpAddr) -> (u64, Option<u64>) {
        let from = network(from);
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        self.guests.values().for_each(|guest| *counts.entry(guest.from).or_default() += 1);
        let most = counts.values().max().copied().unwrap_or(0);
        let is_full = self.guests.len() >= self.limits.all;
        let goes = if counts.get(&from).is_some_and(|n| *n >= self.limits.each) {
            self.first_to_go(|guest| guest.from == from)
        } else if is_full {
            self.first_to_go(|guest| counts.get(&guest.from) == Some(&most))
        } else {
            None
        };
        if let Some(goes) = goes {
            self.leave(goes);
        }
        let number = self.next;
        self.next += 1;
        self.guests.insert(number, Guest { from, asked: false });
        (number, goes)
    }

    /// The request of a connection has come.
    pub(super) fn asked(&mut self, number: u64) {
        if let Some(guest) = self.guests.get_mut(&number) {
            guest.asked = true;
        }
    }

    /// Counts a connection out.
    pub(super) fn leave(&mut self, number: u64) {
        self.guests.remove(&number);
    }

    /// Chooses the connection to close: the oldest that has not asked, or else the oldest.
    fn first_to_go(&self, of: impl Fn(&Guest) -> bool) -> Option<u64> {
        let among = self.guests.iter().filter(|(_, guest)| of(guest));
        among.min_by_key(|(number, guest)| (guest.asked, **number)).map(|(number, _)| *number)
    }
}

/// Returns the network of a client: its IPv4 address, or the 64 bits of an IPv6 address below which a machine chooses its own.
fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << 64))),
        ip @ IpAddr::V4(_) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn there_is_room_for_other_files() {
        assert_eq!(Limits::with_files(1024), Limits { all: 256, each: 64 });
        assert_eq!(Limits::with_files(Limits::FILES), Limits { all: 256, each: 64 });
        assert_eq!(Limits::with_files(256), Limits { all: 128, each: 32 });
        assert_eq!(Limits::with_files(64), Limits { all: 16, each: 4 });
        assert_eq!(Limits::with_files(0), Limits { all: 4, each: 1 });
    }

    #[test]
    fn whoever_holds_too_many_loses_those_that_ask_nothing() {
        let mut crowd = Crowd::new(Limits { all: 8, each: 3 });
        let other = crowd.enter(ip("10.0.0.9")).0;
        let mine: Vec<u64> = (0..3).map(|_| crowd.enter(ip("10.0.0.1")).0).collect();
        crowd.asked(mine[0]);
        assert_eq!(crowd.enter(ip("10.0.0.1")).1, Some(mine[1]), "the oldest without a request");
        let last = crowd.enter(ip("::ffff:10.0.0.1"));
        assert_eq!(last.1, Some(mine[2]), "the same address, written otherwise");
        crowd.leave(last.0);
        assert_eq!(crowd.enter(ip("10.0.0.1")).1, None);
        assert!(crowd.guests.contains_key(&other) && crowd.guests.contains_key(&mine[0]));
    }

    #[test]
    fn when_all_is_full_it_goes_from_who_has_most() {
        let mut crowd = Crowd::new(Limits { all: 4, each: 3 });
        let one = crowd.enter(ip("10.0.0.9")).0;
        let mine: Vec<u64> = (0..3).map(|_| crowd.enter(ip("10.0.0.1")).0).collect();
        assert_eq!(crowd.enter(ip("10.0.0.2")).1, Some(mine[0]));
        mine[1..].iter().for_each(|number| crowd.asked(*number));
        assert_eq!(crowd.enter(ip("10.0.0.3")).1, Some(mine[1]), "all of it has asked: the oldest");
        assert!(crowd.guests.contains_key(&one) && crowd.guests.len() == 4);
    }

    #[test]
    fn a_machine_has_one_network_of_ipv6() {
        let mut crowd = Crowd::new(Limits { all: 8, each: 1 });
        let first = crowd.enter(ip("2001:db8:0:1::1")).0;
        assert_eq!(crowd.enter(ip("2001:db8:0:1:ffff::2")).1, Some(first));
        assert_eq!(crowd.enter(ip("2001:db8:0:2::1")).1, None);
    }
}
