//! Initialisation: where a process gets its device, and the driver's own way to look functions up.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use task_wire::{Begin, Grant, Text};

use super::entry::real as found;
use super::memory::lessen;
use super::{
    INVALID_DEVICE, Inside, NO_DEVICE, Opaque, SUCCESS, at, enter, guard, read, wrapped, wrappers, write,
};
use crate::account::Account;
use crate::ffi::process::{self, HeldDevice, Process};
use crate::ffi::{cuda, tell};
use crate::mode::Mode;
use crate::no_device::NoDevice;

/// Gets the process its device, and then lets the driver initialise itself.
fn start(init: impl Fn() -> c_uint) -> c_uint {
    let is_whole = process::mode() == Mode::Whole && !process::was_initialised_by_parent();
    let Some((process, _inside)) =
        is_whole.then(process::process).flatten().and_then(|p| Some((p, Inside::enter()?)))
    else {
        return init();
    };
    let _one = process.admitting.lock().unwrap_or_else(PoisonError::into_inner);
    if process.held().is_some() {
        return init();
    }
    let admitted = process.client.hello().ok_or(NoDevice::NoBroker).and_then(|welcome| {
        let bound = cuda::bound().map_or(Text::EMPTY, |uuid| Text::cut(&uuid));
        let ask = Begin {
            image: 0,
            nonce: 0,
            mem: 0,
            managed: 0,
            blocks: 1,
            threads: 1,
            whole: true,
            sticky: false,
            bound,
        };
        Ok((process.client.begin(&ask)?, welcome.declared > 0))
    });
    match admitted {
        Ok((grant, is_declared)) => with_device(process, &grant, is_declared, init),
        Err(why) => {
            tell(&format!("this program gets no GPU: {}", reason(&why)));
            NO_DEVICE
        }
    }
}

fn reason(why: &NoDevice) -> String {
    match why {
        NoDevice::Refused(refused) => refused.why.as_str().to_owned(),
        NoDevice::NoBroker | NoDevice::Withdrawn => {
            "the node's task broker does not answer; its job may have ended".to_owned()
        }
    }
}

fn with_device(
    process: &'static Process,
    grant: &Grant,
    is_declared: bool,
    init: impl Fn() -> c_uint,
) -> c_uint {
    cuda::show(grant.visible.as_str(), grant.mps_pipe.as_str());
    let answer = init();
    if answer == SUCCESS {
        // Alone on its device, a program may take what there is: the driver itself says when it is full.
        let account = is_declared.then(|| Account::new(grant.mem));
        process.hold(HeldDevice { account, uuid: grant.uuid.as_str().to_owned() });
    } else {
        process.client.free(grant.nonce);
        if answer == NO_DEVICE {
            tell(&format!("CUDA finds no GPU, although the job has {}", grant.uuid.as_str()));
        }
    }
    answer
}

/// Says once why there is no second device.
fn explain_devices(ordinal: c_int) {
    // No lock: a child may be forked while another thread is here.
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    let Some(held) = process::process().and_then(Process::held) else { return };
    if !IS_SAID.swap(true, Ordering::Relaxed) {
        tell(&format!(
            "this program asks for GPU {ordinal}, but a program of a job with --gpu-isolation=gpu-tasks sees one device, {}, as \
             its GPU 0. For several: compile it with tessera-clang++ and submit with --gpus-per-node, or submit with \
             --gpu-isolation=whole.",
            held.uuid
        ));
    }
}

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;

/// Tells whether this driver's `cuGetProcAddress` answers with the addresses of its exported functions.
fn answers_exported(get: impl Fn(*const c_char, *mut Opaque) -> c_uint) -> bool {
    // 0: not known yet, 1: no, 2: yes. Two threads may find out at once, and find the same.
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let mut address = std::ptr::null_mut();
            let answer = get(c"cuInit".as_ptr(), &raw mut address);
            let is_exported = answer == SUCCESS && found(&real::cuInit, c"cuInit", true) == Some(address);
            KNOWN.store(1 + u8::from(is_exported), Ordering::Relaxed);
            is_exported
        }
        known => known == 2,
    }
}

/// Puts our function in the place of the driver's that was found.
fn substitute(
    symbol: *const c_char,
    out: *mut Opaque,
    version: c_int,
    flags: u64,
    exported: impl Fn() -> bool,
) {
    let Some(address) = read(out).filter(|address| !address.is_null()) else { return };
    if symbol.is_null() || process::mode() != Mode::Whole {
        return;
    }
    let ours = at(address).or_else(|| {
        if exported() {
            return None;
        }
        // SAFETY: cuda.h: the symbol is a C string.
        let symbol = unsafe { CStr::from_ptr(symbol) }.to_str().ok()?;
        let base = (symbol, flags & PER_THREAD != 0);
        wrapped()
            .filter(|entry| entry.base() == base && entry.since <= version)
            .max_by_key(|entry| entry.since)
    });
    if let Some(entry) = ours {
        write(out, entry.ours);
    }
}

wrappers! {
    fn cuInit since 2000 (flags: c_uint) |real| { guard(|| start(|| real(flags))) }
    fn cuDeviceGet since 2000 (out: *mut c_int, ordinal: c_int) |real| {
        let answer = real(out, ordinal);
        if answer == INVALID_DEVICE && ordinal > 0 {
            guard(|| {
                explain_devices(ordinal);
                SUCCESS
            });
        }
        answer
    }
    fn cuDeviceTotalMem_v2 since 3020 (out: *mut usize, device: c_int) |real| {
        guard(|| {
            let answer = real(out, device);
            if let Some(here) = enter().filter(|_| answer == SUCCESS) {
                lessen(out, here.account.total_and_free().0);
            }
            answer
        })
    }
    fn cuGetProcAddress since 11030 (symbol: *const c_char, out: *mut Opaque, version: c_int, flags: u64) |real| {
        let answer = real(symbol, out, version, flags);
        if answer == SUCCESS {
            guard(|| {
                substitute(symbol, out, version, flags, || {
                    answers_exported(|name, to| real(name, to, 2000, 0))
                });
                SUCCESS
            });
        }
        answer
    }
    fn cuGetProcAddress_v2 since 12000 (
        symbol: *const c_char, out: *mut Opaque, version: c_int, flags: u64, status: *mut c_uint,
    ) |real| {
        let answer = real(symbol, out, version, flags, status);
        if answer == SUCCESS {
            guard(|| {
                substitute(symbol, out, version, flags, || {
                    answers_exported(|name, to| real(name, to, 2000, 0, std::ptr::null_mut()))
                });
                SUCCESS
            });
        }
        answer
    }
}
