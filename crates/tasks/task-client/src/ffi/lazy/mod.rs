//! `tessera_launch_prepare` and `tessera_lazy_*` of `tessera_task.h`.
//!
//! No lock is held while a task waits for its device: another thread may free what it waits for.

mod driver;
mod host;

use std::ffi::{c_int, c_void};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use task_wire::{Begin, Text};

use super::lazy_objects::Lazy;
use super::process::{Process, process};
use super::{STICKY, TaskAsk, begin, cuda, end, guard, is_within, selected};
use crate::lazy::{Backing, CERTAIN, Content, Freed, MOST_QUEUED, Place, Room, Rows, size};
use crate::no_device::NoDevice;

impl Lazy {
    /// A device was made the thread's: it gets the heap limit of the process.
    pub(super) fn entered(&self, uuid: &str) {
        let Some(heap) = self.heap.load(Ordering::Relaxed).checked_sub(1) else { return };
        let mut limited = self.limited.lock().unwrap_or_else(PoisonError::into_inner);
        if !limited.iter().any(|known| known == uuid) {
            driver::set_heap(heap);
            limited.push(uuid.to_owned());
        }
    }
}

/// Binds every object that has no memory, and sees to it that the process has a device. See `tessera_task.h`.
#[unsafe(no_mangle)]
extern "C" fn tessera_launch_prepare(threads: u32, blocks: u64) {
    guard((), || {
        if let Some(process) = process().filter(|process| !is_within(process)) {
            prepare(process, threads.into(), blocks);
        }
    });
}

fn prepare(process: &Process, threads: u64, blocks: u64) {
    let mut table = process.lazy.settled();
    let (rooms, home) = (table.take_unbound(), table.home());
    drop(table);
    if !rooms.is_empty() {
        let mut rest = Binding { process, rooms: &rooms, is_done: false };
        return rest.bind(threads, blocks, home.is_none());
    }
    match home {
        Some(task) => selected(process, task),
        None if process.live.lock().unwrap_or_else(PoisonError::into_inner).is_empty() => {
            // Something needs a device, and the process holds none: a task without objects, until it ends.
            STICKY.store(true, Ordering::Relaxed);
            let heap = if threads > 0 { process.lazy.heap() } else { 0 };
            begin(process, TaskAsk { mem: heap, managed: 0, threads: threads.max(1), blocks: blocks.max(1) });
        }
        None => {}
    }
}

/// Rooms that this thread gives their memory.
struct Binding<'a> {
    process: &'a Process,
    rooms: &'a [Room],
    is_done: bool,
}

impl Binding<'_> {
    fn bind(&mut self, threads: u64, blocks: u64, is_first: bool) {
        let lazy = &self.process.lazy;
        // The heap of kernels is there once.
        let heap = if is_first { lazy.heap() } else { 0 };
        let mem = self.rooms.iter().map(|room| room.bytes).fold(heap, u64::saturating_add);
        STICKY.store(true, Ordering::Relaxed);
        let task =
            begin(self.process, TaskAsk { mem, managed: 0, threads: threads.max(1), blocks: blocks.max(1) });
        // Refused: the program goes on, and what it allocates is charged as any other allocation is.
        driver::enter();
        let backed: Vec<(Room, Backing)> = self
            .rooms
            .iter()
            .map(|room| {
                host::give_up(*room);
                let backing = driver::back(*room);
                if !matches!(backing, Backing::Mapped(_)) {
                    // They name an object, not memory of the host's.
                    host::hold(*room);
                }
                (*room, backing)
            })
            .collect();
        let mut table = lazy.lock();
        let steps = table.bind(&backed, task);
        self.is_done = true;
        for step in &steps {
            if let Place::Bound(at) = table.place(step.to.at) {
                driver::replay(step, at);
            }
        }
    }
}

impl Drop for Binding<'_> {
    fn drop(&mut self) {
        // Whatever happened, nobody waits for ever.
        if !self.is_done {
            let backed: Vec<_> = self.rooms.iter().map(|room| (*room, Backing::Nothing)).collect();
            drop(self.process.lazy.lock().bind(&backed, 0));
        }
        self.process.lazy.bound.notify_all();
    }
}

/// Answers an allocation. See `tessera_task.h`.
#[unsafe(no_mangle)]
extern "C" fn tessera_lazy_malloc(
    ptr: *mut *mut c_void,
    pitch: *mut usize,
    width: usize,
    height: usize,
    kind: c_int,
) -> c_int {
    guard(0, || {
        let Some(process) = process().filter(|process| !is_within(process) && !ptr.is_null()) else {
            return 0;
        };
        match malloc(process, width as u64, height as u64, !pitch.is_null(), kind == MANAGED) {
            Some((address, row)) => {
                host::put(ptr, std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0)));
                host::put(pitch, usize::try_from(row).unwrap_or(0));
                1
            }
            None => {
                // The program's own call follows, on the device that it will have.
                prepare(process, 0, 0);
                0
            }
        }
    })
}

/// `TESSERA_LAZY_MANAGED`.
const MANAGED: c_int = 1;

/// An address and the bytes from row to row; `None` where the driver is to answer.
fn malloc(
    process: &Process,
    width: u64,
    height: u64,
    is_pitched: bool,
    is_managed: bool,
) -> Option<(u64, u64)> {
    let (bytes, row) = size(width, height, is_pitched).filter(|(bytes, _)| *bytes > 0)?;
    if is_managed {
        return Some((managed(process, bytes)?, row));
    }
    let lazy = &process.lazy;
    let unbound = lazy.lock().unbound().saturating_add(bytes);
    if unbound > CERTAIN && unbound.saturating_add(lazy.heap()) > most(process) {
        return None;
    }
    let address = lazy.lock().add(bytes, host::reserve)?;
    Some((address, row))
}

/// Managed memory, for which the host may reach at once.
fn managed(process: &Process, bytes: u64) -> Option<u64> {
    STICKY.store(true, Ordering::Relaxed);
    let task = begin(process, TaskAsk { mem: 0, managed: bytes, threads: 1, blocks: 1 });
    driver::enter();
    let made = driver::managed(bytes);
    match made {
        Some(address) => process.lazy.lock().add_own(address, bytes, task),
        None => end(process, task),
    }
    made
}

/// The most that a task of this process could ever get. The broker says so when it refuses what no device holds.
fn most(process: &Process) -> u64 {
    let lazy = &process.lazy;
    if let Some(known) = lazy.most.load(Ordering::Relaxed).checked_sub(1) {
        return known;
    }
    let bound = cuda::bound().map_or(Text::EMPTY, |uuid| Text::cut(&uuid));
    let ask = Begin {
        image: 0,
        nonce: 0,
        mem: 1 << 62,
        managed: 0,
        blocks: 1,
        threads: 1,
        whole: false,
        sticky: true,
        bound,
    };
    let most = match process.client.begin(&ask) {
        Err(NoDevice::Refused(refused)) if refused.need > 0 => refused.most,
        // Nobody knows: then nothing is too large.
        _ => return u64::MAX,
    };
    lazy.most.store(most.saturating_add(1), Ordering::Relaxed);
    most
}

/// `cudaMemcpyHostToDevice`, `cudaMemcpyDefault`.
const UP: c_int = 1;
const ANY: c_int = 4;

/// Answers a copy. See `tessera_task.h`.
#[unsafe(no_mangle)]
extern "C" fn tessera_lazy_copy(
    dst: *mut c_void,
    dst_pitch: usize,
    src: *const c_void,
    src_pitch: usize,
    width: usize,
    height: usize,
    kind: c_int,
) -> c_int {
    guard(0, || {
        let rows = |at: u64, pitch: usize| Rows {
            at,
            pitch: pitch as u64,
            width: width as u64,
            height: height as u64,
        };
        let to = rows(dst.expose_provenance() as u64, dst_pitch);
        let from = rows(src.expose_provenance() as u64, src_pitch);
        process().map_or(0, |process| c_int::from(copy(process, to, from, kind)))
    })
}

/// Tells whether the library has done the copy, or will.
fn copy(process: &Process, to: Rows, from: Rows, kind: c_int) -> bool {
    if to.bytes() == Some(0) {
        return false;
    }
    let mut table = process.lazy.at_rest(&[to.at, from.at]);
    let mut places = (table.place(to.at), table.place(from.at));
    if places == (Place::Unknown, Place::Unknown) {
        return false;
    }
    if from.at != 0 && is_from_host(process, places.1, kind) && table.may_wait(&to) {
        // Without memory for the copy, the program's own call needs none.
        if let Some(data) = host::read(from) {
            table.queue(to, Content::Data(data));
            let is_much = table.queued() > MOST_QUEUED;
            drop(table);
            if is_much {
                prepare(process, 0, 0);
            }
            return true;
        }
    }
    if places.0 == Place::Unbound || places.1 == Place::Unbound {
        drop(table);
        prepare(process, 0, 0);
        table = process.lazy.at_rest(&[to.at, from.at]);
        places = (table.place(to.at), table.place(from.at));
    }
    drop(table);
    let moved = |place, rows: Rows| match place {
        Place::Bound(at) => Rows { at, ..rows },
        _ => rows,
    };
    let (at, other) = (moved(places.0, to), moved(places.1, from));
    // Where the memory is at its own address, the program's call finds it.
    (at, other) != (to, from) && driver::copy(at, other)
}

/// Tells whether a source that is no object of ours is the host's: the program says so, or there is no device memory yet.
fn is_from_host(process: &Process, source: Place, kind: c_int) -> bool {
    let has_none = || process.live.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
    source == Place::Unknown && (kind == UP || (kind == ANY && has_none()))
}

/// Answers a fill. See `tessera_task.h`.
#[unsafe(no_mangle)]
extern "C" fn tessera_lazy_set(
    dst: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
) -> c_int {
    guard(0, || {
        let to = Rows {
            at: dst.expose_provenance() as u64,
            pitch: pitch as u64,
            width: width as u64,
            height: height as u64,
        };
        // Only the lowest byte counts: cudaMemset.
        let value = value.to_le_bytes()[0];
        process().map_or(0, |process| c_int::from(set(process, to, value)))
    })
}

fn set(process: &Process, to: Rows, value: u8) -> bool {
    let mut table = process.lazy.at_rest(&[to.at]);
    if to.bytes() != Some(0) && table.may_wait(&to) {
        table.queue(to, Content::Value(value));
        return true;
    }
    if table.place(to.at) == Place::Unbound {
        drop(table);
        prepare(process, 0, 0);
        table = process.lazy.at_rest(&[to.at]);
    }
    let place = table.place(to.at);
    drop(table);
    matches!(place, Place::Bound(at) if at != to.at && driver::fill(Rows { at, ..to }, value))
}

/// Answers a free. See `tessera_task.h`.
#[unsafe(no_mangle)]
extern "C" fn tessera_lazy_free(ptr: *mut c_void, stream: *mut c_void, ordered: c_int) -> c_int {
    guard(0, || {
        let stream = (ordered != 0).then_some(stream.expose_provenance() as u64);
        let Some(process) = process() else { return 0 };
        if ptr.is_null() {
            // It frees nothing. Without a device, the program's own call would make a context on one that nobody granted.
            let has_none = process.live.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
            return c_int::from(has_none && !is_within(process));
        }
        c_int::from(free(process, ptr.expose_provenance() as u64, stream))
    })
}

fn free(process: &Process, address: u64, stream: Option<u64>) -> bool {
    let table = process.lazy.at_rest(&[address]);
    let (place, home) = (table.place(address), table.home());
    drop(table);
    if place == Place::Unknown {
        return false;
    }
    if matches!(place, Place::Bound(_)) {
        if let Some(task) = home {
            selected(process, task);
        }
        driver::wait(stream);
    }
    let freed = process.lazy.at_rest(&[address]).free(address);
    match freed {
        Freed::NotOurs => return false,
        Freed::Kept => {}
        Freed::Unbound(room) => host::give_up(room),
        Freed::Bound { room, backing, ended } => {
            driver::release(room, backing);
            if matches!(backing, Backing::Elsewhere(_) | Backing::Nothing) {
                host::give_up(room);
            }
            if let Some(task) = ended {
                end(process, task);
            }
        }
    }
    true
}

/// Answers a heap limit. See `tessera_task.h`.
#[unsafe(no_mangle)]
extern "C" fn tessera_lazy_heap_limit(bytes: usize) -> c_int {
    guard(0, || {
        let Some(process) = process().filter(|process| !is_within(process)) else { return 0 };
        let bytes = bytes as u64;
        process.lazy.heap.store(bytes.saturating_add(1), Ordering::Relaxed);
        process.lazy.limited.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if bytes > CERTAIN {
            // The driver may refuse it.
            prepare(process, 0, 0);
        }
        let has_none = process.live.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        c_int::from(has_none)
    })
}

/// Resolves the memory that an argument of a launch points to. See `tessera_task.h`.
#[unsafe(no_mangle)]
extern "C" fn tessera_lazy_address(ptr: *mut c_void) -> *mut c_void {
    guard(ptr, || {
        let Some(process) = process() else { return ptr };
        match process.lazy.at_rest(&[ptr.expose_provenance() as u64]).place(ptr.expose_provenance() as u64) {
            Place::Bound(at) => std::ptr::with_exposed_provenance_mut(usize::try_from(at).unwrap_or(0)),
            _ => ptr,
        }
    })
}
