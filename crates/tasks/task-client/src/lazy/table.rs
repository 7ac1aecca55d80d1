//! The objects of one process, where they are, and what waits for them.

use std::collections::BTreeMap;

use super::{ALIGN, GRANULE, Rows};

/// An object below this many bytes shares a room.
const SMALL: u64 = GRANULE / 2;

/// Value that a step writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Row after row, without gaps.
    Data(Vec<u8>),
    /// A byte for every position.
    Value(u8),
}

/// A queued copy or fill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    order: u64,
    /// Address that it writes to.
    pub to: Rows,
    /// Value to write.
    pub content: Content,
}

/// Kind of a bound room's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// The driver's memory of this handle, mapped where the room is.
    Mapped(u64),
    /// Memory at another address: the driver cannot map it where the room is.
    Elsewhere(u64),
    /// The driver's own allocation, which has its address.
    Own,
    /// Nothing: the driver refused. What uses it fails as it would with any address that names nothing.
    Nothing,
}

/// A range of addresses, in whole granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The first address.
    pub start: u64,
    /// The length.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoomState {
    Unbound,
    /// A thread asks for its task.
    Binding,
    Bound {
        backing: Backing,
        task: i64,
    },
}

#[derive(Clone, Debug)]
struct HeldRange {
    bytes: u64,
    /// First address and length of each object.
    objects: BTreeMap<u64, u64>,
    /// How much has been given to objects, those included that were freed.
    used: u64,
    state: RoomState,
    steps: Vec<Step>,
}

/// Finds the room of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In no object of the table.
    Unknown,
    /// In an object without memory.
    Unbound,
    /// In an object that gets memory now.
    Binding,
    /// In an object with memory, which is at this address.
    Bound(u64),
}

/// Remaining work after a free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// All of it: no object of the table begins there.
    NotOurs,
    /// Nothing: others are in the same room.
    Kept,
    /// The room's addresses go.
    Unbound(Room),
    /// The room's memory and addresses go; `ended` is a task that has no room any more.
    Bound {
        /// The room.
        room: Room,
        /// Memory.
        backing: Backing,
        /// The task that is over.
        ended: Option<i64>,
    },
}

/// The objects of one process.
#[derive(Debug, Default)]
pub struct Table {
    rooms: BTreeMap<u64, HeldRange>,
    /// Numbers steps.
    order: u64,
    /// Bytes of data that wait.
    queued: u64,
    /// Rooms of each task.
    tasks: BTreeMap<i64, usize>,
    /// Tells whether a room may be without memory. Every launch asks, and mostly none is.
    is_open: bool,
}

impl Table {
    /// Gives an object of `bytes`, at least 1, an address. `reserve` makes a room of so many bytes, if it can.
    pub fn add(&mut self, bytes: u64, reserve: impl FnOnce(u64) -> Option<u64>) -> Option<u64> {
        let taken = bytes.checked_next_multiple_of(ALIGN)?;
        let has_space =
            |held: &HeldRange| held.state == RoomState::Unbound && held.bytes - held.used >= taken;
        let shared = self.rooms.iter().find(|(_, held)| bytes < SMALL && has_space(held));
        let shared = shared.map(|(start, _)| *start);
        let (start, held) = match shared {
            Some(start) => (start, self.rooms.get_mut(&start)?),
            None => {
                let room = bytes.checked_next_multiple_of(GRANULE)?;
                let start = reserve(room).filter(|start| !self.rooms.contains_key(start))?;
                let held = HeldRange {
                    bytes: room,
                    objects: BTreeMap::new(),
                    used: 0,
                    state: RoomState::Unbound,
                    steps: Vec::new(),
                };
                self.is_open = true;
                (start, self.rooms.entry(start).or_insert(held))
            }
        };
        let address = start + held.used;
        held.used += taken;
        held.objects.insert(address, bytes);
        Some(address)
    }

    /// Adds an object that the driver has allocated itself, for `task`.
    pub fn add_own(&mut self, start: u64, bytes: u64, task: i64) {
        let state = RoomState::Bound { backing: Backing::Own, task };
        let objects = BTreeMap::from([(start, bytes)]);
        self.rooms.insert(start, HeldRange { bytes, objects, used: bytes, state, steps: Vec::new() });
        *self.tasks.entry(task).or_default() += 1;
    }

    /// The room in which an address is, if it is in an object there.
    fn find(&self, address: u64) -> Option<(u64, &HeldRange, Rows)> {
        let (start, held) = self.rooms.range(..=address).next_back()?;
        let (object, bytes) = held.objects.range(..=address).next_back()?;
        let whole = Rows { at: *object, pitch: *bytes, width: *bytes, height: 1 };
        (address - object < *bytes).then_some((*start, held, whole))
    }

    /// Finds the room of an address.
    #[must_use]
    pub fn place(&self, address: u64) -> Place {
        match self.find(address).map(|(start, held, _)| (start, held.state)) {
            None => Place::Unknown,
            Some((_, RoomState::Unbound)) => Place::Unbound,
            Some((_, RoomState::Binding)) => Place::Binding,
            Some((start, RoomState::Bound { backing: Backing::Elsewhere(other), .. })) => {
                Place::Bound(address - start + other)
            }
            Some((_, RoomState::Bound { .. })) => Place::Bound(address),
        }
    }

    /// Tells whether a step may wait: all that it writes is in one object without memory.
    #[must_use]
    pub fn may_wait(&self, to: &Rows) -> bool {
        let Some((_, held, object)) = self.find(to.at) else { return false };
        let is_inside = to.end().zip(object.end()).is_some_and(|(end, most)| end <= most);
        held.state == RoomState::Unbound && is_inside && (to.height < 2 || to.pitch >= to.width)
    }

    /// Queues a step that [`Table::may_wait`].
    pub fn queue(&mut self, to: Rows, content: Content) {
        let Some(start) = self.find(to.at).map(|(start, ..)| start) else { return };
        self.order += 1;
        self.queued += length(&content);
        let order = self.order;
        if let Some(held) = self.rooms.get_mut(&start) {
            held.steps.push(Step { order, to, content });
        }
    }

    /// Bytes of data that wait.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Bytes of the rooms without memory.
    #[must_use]
    pub fn unbound(&self) -> u64 {
        self.rooms.values().filter(|held| held.state == RoomState::Unbound).map(|held| held.bytes).sum()
    }

    /// Tells whether a thread asks for the task of some objects now.
    #[must_use]
    pub fn is_binding(&self) -> bool {
        self.is_open && self.rooms.values().any(|held| held.state == RoomState::Binding)
    }

    /// A task that holds memory of objects here.
    #[must_use]
    pub fn home(&self) -> Option<i64> {
        self.tasks.keys().copied().find(|task| *task > 0)
    }

    /// All rooms without memory. They are the caller's to bind.
    pub fn take_unbound(&mut self) -> Vec<Room> {
        if !self.is_open {
            return Vec::new();
        }
        let unbound = self.rooms.iter_mut().filter(|(_, held)| held.state == RoomState::Unbound);
        unbound
            .map(|(start, held)| {
                held.state = RoomState::Binding;
                Room { start: *start, bytes: held.bytes }
            })
            .collect()
    }

    /// Gives rooms that were taken their memory. Returns what waits for them, in order.
    pub fn bind(&mut self, rooms: &[(Room, Backing)], task: i64) -> Vec<Step> {
        let mut steps = Vec::new();
        for (room, backing) in rooms {
            if let Some(held) = self.rooms.get_mut(&room.start) {
                held.state = RoomState::Bound { backing: *backing, task };
                *self.tasks.entry(task).or_default() += 1;
                steps.append(&mut held.steps);
            }
        }
        self.is_open = self.rooms.values().any(|held| !matches!(held.state, RoomState::Bound { .. }));
        steps.sort_by_key(|step| step.order);
        self.queued -= steps.iter().map(|step| length(&step.content)).sum::<u64>();
        steps
    }

    /// Frees the object that begins at `address`.
    pub fn free(&mut self, address: u64) -> Freed {
        let Some((start, _, object)) = self.find(address).filter(|(.., object)| object.at == address) else {
            return Freed::NotOurs;
        };
        let Some(held) = self.rooms.get_mut(&start) else { return Freed::NotOurs };
        held.objects.remove(&address);
        let end = object.at + object.width;
        let queued = &mut self.queued;
        held.steps.retain(|step| {
            let is_others = step.to.at < object.at || step.to.at >= end;
            *queued -= if is_others { 0 } else { length(&step.content) };
            is_others
        });
        if !held.objects.is_empty() {
            return Freed::Kept;
        }
        let room = Room { start, bytes: held.bytes };
        let state = held.state;
        self.rooms.remove(&start);
        match state {
            RoomState::Bound { backing, task } => Freed::Bound { room, backing, ended: self.leave(task) },
            RoomState::Unbound | RoomState::Binding => Freed::Unbound(room),
        }
    }

    /// Removes a room from a task; returns the task if that was its last.
    fn leave(&mut self, task: i64) -> Option<i64> {
        let rooms = self.tasks.get_mut(&task)?;
        *rooms -= 1;
        if *rooms > 0 {
            return None;
        }
        self.tasks.remove(&task);
        Some(task)
    }
}

fn length(content: &Content) -> u64 {
    match content {
        Content::Data(data) => data.len() as u64,
        Content::Value(_) => 0,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
