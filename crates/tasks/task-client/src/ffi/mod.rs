//! The C functions of `tessera_task.h`.

mod cuda;
pub(crate) mod driver;
pub mod interpose;
mod lazy;
mod lazy_objects;
mod process;
mod real_dlsym;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use task_wire::{Begin, Text};

use crate::account::Account;
use crate::no_device::NoDevice;
use process::{Live, Process, process};

/// Tessera's version with its NUL. `tessera doctor` reads it in the file.
#[unsafe(no_mangle)]
static tessera_version: [u8; VERSION.len()] = *VERSION;
const VERSION: &[u8; env!("CARGO_PKG_VERSION").len() + 1] =
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes().first_chunk().expect("as long as itself");

static STICKY: AtomicBool = AtomicBool::new(false);

/// Runs the whole of an entry: nothing unwinds into C.
fn guard<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}

/// Lines that one process writes at most: one that asks again and again would fill its job's log.
const MOST_LINES: i64 = 20;

/// Tells the user. If standard error cannot be written, there is nobody to tell.
fn tell(text: &str) {
    static LINES: AtomicI64 = AtomicI64::new(0);
    if LINES.fetch_add(1, Ordering::Relaxed) < MOST_LINES {
        let line = format!("tessera: {text}\n");
        // One write, so that lines of several processes do not mix, and without the standard library's lock: a child may have
        // been forked while another thread held it.
        // SAFETY: write(2): the buffer has so many bytes. The program may have closed or replaced the file; then the line is lost.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    }
}

/// Asks for a device for one task, waits, and makes it the calling thread's. See `tessera_task.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tessera_task_begin(mem: u64, threads: u32, blocks: u64) -> i64 {
    let ask = TaskAsk { mem, managed: 0, threads: threads.into(), blocks };
    guard(-1, || process().map_or(0, |process| begin(process, ask)))
}

/// Needs of a task.
#[derive(Clone, Copy)]
struct TaskAsk {
    mem: u64,
    managed: u64,
    threads: u64,
    blocks: u64,
}

/// The account of a process that was admitted as one that asks for nothing itself.
fn account(process: &Process) -> Option<&Account> {
    process.held().and_then(|held| held.account.as_ref())
}

/// Tasks of such a process have numbers that the broker never gives.
const FIRST_WITHIN: i64 = 1 << 62;

/// A task within such a process: code that asks was loaded after the driver had started. What it allocates is counted as
/// it is, so that nothing is charged twice.
fn begin_within(process: &Process, account: &Account, mem: u64) -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(FIRST_WITHIN);
    match account.begin_task(mem, &process.client) {
        Ok(()) => NEXT.fetch_add(1, Ordering::Relaxed),
        Err(why) => refused(&why),
    }
}

/// Tells whether everything that the process allocates is counted anyway.
fn is_within(process: &Process) -> bool {
    account(process).is_some()
}

fn begin(process: &Process, TaskAsk { mem, managed, threads, blocks }: TaskAsk) -> i64 {
    if let Some(account) = account(process) {
        return begin_within(process, account, mem);
    }
    let bound = cuda::bound().map_or(Text::EMPTY, |uuid| Text::cut(&uuid));
    let sticky = STICKY.load(Ordering::Relaxed);
    let ask = Begin { image: 0, nonce: 0, mem, managed, blocks, threads, whole: false, sticky, bound };
    match process.client.begin(&ask) {
        Ok(grant) => {
            let uuid = grant.uuid.as_str().to_owned();
            cuda::show(grant.visible.as_str(), grant.mps_pipe.as_str());
            let context = cuda::select(&uuid, grant.ordinal);
            let live = Live { nonce: grant.nonce, uuid, ordinal: grant.ordinal, context };
            process.lazy.entered(&live.uuid);
            let task = i64::try_from(grant.task).unwrap_or(i64::MAX);
            process.live.lock().unwrap_or_else(PoisonError::into_inner).insert(task, live);
            task
        }
        Err(why) => refused(&why),
    }
}

/// Says why a task was refused, and answers so.
fn refused(why: &NoDevice) -> i64 {
    match why {
        NoDevice::Refused(refused) => {
            tell(&format!("a GPU task was refused: {}", refused.why.as_str()));
            -i64::from(refused.code as u16)
        }
        NoDevice::NoBroker | NoDevice::Withdrawn => {
            tell("a GPU task has no device: the node's task broker does not answer");
            -i64::from(u16::MAX)
        }
    }
}

/// Ends a task. See `tessera_task.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tessera_task_free(task: i64) {
    guard((), || {
        let Some(process) = process().filter(|_| task > 0) else { return };
        if let Some(account) = account(process).filter(|_| task >= FIRST_WITHIN) {
            return account.end_task(&process.client);
        }
        end(process, task);
    });
}

fn end(process: &Process, task: i64) {
    let live = process.live.lock().unwrap_or_else(PoisonError::into_inner).remove(&task);
    // A task that is not known here was freed before, or is another process's.
    if let Some(live) = live {
        process.client.free(live.nonce);
    }
}

/// Makes the device of a live task the calling thread's again. See `tessera_task.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tessera_task_select(task: i64) {
    guard((), || {
        if let Some(process) = process().filter(|_| task >= 0) {
            selected(process, task);
        }
    });
}

/// Makes a live task's device the thread's; for 0, that of any live task.
fn selected(process: &Process, task: i64) {
    let all = || process.live.lock().unwrap_or_else(PoisonError::into_inner);
    let found = {
        let live = all();
        let found = if task == 0 { live.iter().next() } else { live.get_key_value(&task) };
        found.map(|(task, live)| (*task, live.clone()))
    };
    let Some((task, live)) = found.filter(|(_, live)| !cuda::is_current(live.context)) else { return };
    let context = cuda::select(&live.uuid, live.ordinal);
    if let Some(live) = all().get_mut(&task) {
        live.context = context;
    }
}

/// All tasks of this process go to one device from now on. See `tessera_task.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tessera_task_sticky() {
    STICKY.store(true, Ordering::Relaxed);
}
