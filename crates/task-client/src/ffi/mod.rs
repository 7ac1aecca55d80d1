//! The C functions of `tessera_task.h`.

mod cuda;

use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use task_wire::{Begin, Text};

use crate::client::{Client, NoDevice};

/// A task of this process that has its device.
#[derive(Clone, Debug)]
struct Live {
    nonce: u64,
    uuid: String,
    ordinal: u64,
}

/// What a process has; a forked child makes its own.
struct Process {
    client: Client,
    live: Mutex<BTreeMap<i64, Live>>,
}

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
static STICKY: AtomicBool = AtomicBool::new(false);

/// A number that the kernel draws at each `exec`.
fn image() -> u64 {
    // SAFETY: getauxval(3): no preconditions.
    let at = unsafe { libc::getauxval(libc::AT_RANDOM) };
    let at = std::ptr::with_exposed_provenance::<u64>(usize::try_from(at).unwrap_or(0));
    if at.is_null() {
        return 0;
    }
    // SAFETY: getauxval(3): AT_RANDOM is the address of 16 random bytes, which stay where they are.
    unsafe { at.read_unaligned() }
}

/// This process's state; `None` outside a job of kind `tasks`.
fn process() -> Option<&'static Process> {
    let known = PROCESS.load(Ordering::Acquire);
    // SAFETY: the pointer is null or from `Box::into_raw` below, and what it points to is never freed.
    if let Some(process) = unsafe { known.as_ref() }.filter(|process| process.client.is_ours()) {
        return Some(process);
    }
    // A lock that another thread held while the parent forked would never be opened: the child leaves all of it alone.
    let socket = std::env::var_os("TESSERA_TASK_SOCKET").filter(|socket| !socket.is_empty())?;
    let client = Client::new(Path::new(&socket), image());
    let new = Box::into_raw(Box::new(Process { client, live: Mutex::default() }));
    let now = match PROCESS.compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new,
        Err(other) => other,
    };
    // SAFETY: as above; another thread's was made for this process too.
    unsafe { now.as_ref() }
}

/// Runs the whole of an entry: nothing unwinds into C.
fn guard<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}

/// Tells the user. If standard error cannot be written, there is nobody to tell.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "tessera: {text}");
}

/// Asks for a device for one task, waits, and makes it the calling thread's. See `tessera_task.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tessera_task_begin(mem: u64, threads: u32, blocks: u64) -> i64 {
    guard(-1, || process().map_or(0, |process| begin(process, mem, threads.into(), blocks)))
}

fn begin(process: &Process, mem: u64, threads: u64, blocks: u64) -> i64 {
    let bound = cuda::bound().map_or(Text::EMPTY, |uuid| Text::cut(&uuid));
    let sticky = STICKY.load(Ordering::Relaxed);
    let ask = Begin { image: 0, nonce: 0, mem, managed: 0, blocks, threads, whole: false, sticky, bound };
    match process.client.begin(&ask) {
        Ok(grant) => {
            let uuid = grant.uuid.as_str().to_owned();
            let live = Live { nonce: grant.nonce, uuid, ordinal: grant.ordinal };
            cuda::show(grant.visible.as_str(), grant.mps_pipe.as_str());
            cuda::select(&live.uuid, live.ordinal);
            let task = i64::try_from(grant.task).unwrap_or(i64::MAX);
            process.live.lock().unwrap_or_else(PoisonError::into_inner).insert(task, live);
            task
        }
        Err(NoDevice::Refused(refused)) => {
            tell(&format!("a GPU task was refused: {}", refused.why.as_str()));
            -i64::from(refused.code as u16)
        }
        Err(NoDevice::NoBroker) => {
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
        let live = process.live.lock().unwrap_or_else(PoisonError::into_inner).remove(&task);
        // A task that is not known here was freed before, or is another process's.
        if let Some(live) = live {
            process.client.free(live.nonce);
        }
    });
}

/// Makes the device of a live task the calling thread's again. See `tessera_task.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tessera_task_select(task: i64) {
    guard((), || {
        let Some(process) = process().filter(|_| task > 0) else { return };
        let live = process.live.lock().unwrap_or_else(PoisonError::into_inner).get(&task).cloned();
        if let Some(live) = live {
            cuda::select(&live.uuid, live.ordinal);
        }
    });
}

/// All tasks of this process go to one device from now on. See `tessera_task.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tessera_task_sticky() {
    STICKY.store(true, Ordering::Relaxed);
}
