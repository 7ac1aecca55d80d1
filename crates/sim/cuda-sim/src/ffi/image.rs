//! Kernels: shared objects that `cuda-sim-cc` makes of a `.cu` file, loaded into the process.
//!
//! An image exports, for each kernel `K` (its mangled name): `K` itself; `__cuda_sim_call_K`, which calls it with arguments taken from an
//! array of pointers, as `cuLaunchKernel` has them; and once `__cuda_sim_run`, which runs all threads of a grid. All of them are
//! written by `include/cuda_sim_image.h`.

use std::ffi::{CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::abi::bytes_at;
use crate::core::code::{Answer, Code};

/// `__cuda_sim_call_K`.
type Call = unsafe extern "C" fn(*mut c_void, *mut *mut c_void);
/// `__cuda_sim_run`.
type RunFn = unsafe extern "C" fn(
    *mut c_void,
    Call,
    *mut *mut c_void,
    *const [c_uint; 3],
    *const [c_uint; 3],
    c_ulong,
) -> c_int;

/// What `cuModuleLoadFatBinary` and `__cudaRegisterFatBinary` get: a header that points to the image.
const WRAPPER_MAGIC: u32 = 0x466243b1;
const ELF_MAGIC: [u8; 4] = *b"\x7fELF";
/// `e_machine` of x86-64.
const X86_64: u16 = 62;

/// Kernels of one process run one after another: blocks share the image's `__shared__` variables.
static RUNNING: Mutex<()> = Mutex::new(());

/// A loaded image. It stays loaded: its functions may have registered destructors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Image {
    handle: *mut c_void,
    run: RunFn,
}

// SAFETY: dlsym may be called from any thread with a handle that is never closed.
unsafe impl Send for Image {}

/// A kernel of an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    kernel: *mut c_void,
    call: Call,
    run: RunFn,
}

// SAFETY: both are code, which does not change.
unsafe impl Send for Kernel {}

/// The bytes of an image at an address: an ELF file, or a wrapper that points to one.
fn image_bytes(address: u64) -> Answer<&'static [u8]> {
    if address == 0 {
        return Err(Code::InvalidValue);
    }
    let at = |address: u64, length: usize| -> &'static [u8] {
        // SAFETY: cuda.h: the image argument points to a whole image; each length asked for lies within what has been read of its headers.
        unsafe { std::slice::from_raw_parts(bytes_at(address), length) }
    };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    let mut start = address;
    if number(at(start, 4)) == u64::from(WRAPPER_MAGIC) {
        start = number(at(start + 8, 8));
    }
    let magic = at(start, 4);
    if magic != ELF_MAGIC {
        // PTX, or a fat binary of nvcc's: code for a GPU.
        return Err(Code::NoBinaryForGpu);
    }
    let header = at(start, 64);
    let field =
        |offset: usize, length: usize| number(header.get(offset..offset + length).unwrap_or_default());
    if field(18, 2) != u64::from(X86_64) {
        return Err(Code::NoBinaryForGpu);
    }
    // The table of sections is the last part of a file that a linker wrote.
    let length = field(40, 8) + field(58, 2) * field(60, 2);
    Ok(at(start, usize::try_from(length).map_err(|_| Code::InvalidImage)?))
}

impl Image {
    /// Loads the image at an address of the program's.
    pub(super) fn at(address: u64) -> Answer<Image> {
        Image::load(image_bytes(address)?)
    }

    /// Loads an image. Each load has variables of its own.
    pub(super) fn load(bytes: &[u8]) -> Answer<Image> {
        use rustix::fs::MemfdFlags;
        let failed = |_| Code::OperatingSystem;
        let fd = rustix::fs::memfd_create("cuda-sim-image", MemfdFlags::CLOEXEC).map_err(failed)?;
        let mut written = 0;
        while written < bytes.len() {
            written += rustix::io::write(&fd, bytes.get(written..).unwrap_or_default()).map_err(failed)?;
        }
        // The loader takes a name that it knows for what it has loaded, and file descriptors come again: slashes make each name new.
        static LOADS: AtomicUsize = AtomicUsize::new(1);
        let slashes = "/".repeat(LOADS.fetch_add(1, Ordering::Relaxed));
        let path = format!("/proc/self/fd{slashes}{}", fd.as_raw_fd());
        let path = CString::new(path).map_err(|_| Code::Unknown)?;
        // SAFETY: `path` is a C string; the image's constructors are the program's own code.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(Code::SharedObjectInitFailed);
        }
        let run = symbol(handle, "__cuda_sim_run").ok_or(Code::InvalidImage)?;
        // SAFETY: include/cuda_sim_image.h defines `__cuda_sim_run` with this type.
        let run = unsafe { std::mem::transmute::<*mut c_void, RunFn>(run) };
        Ok(Image { handle, run })
    }

    /// A kernel by its mangled name.
    pub(super) fn kernel(self, name: &str) -> Answer<Kernel> {
        let kernel = symbol(self.handle, name).ok_or(Code::NotFound)?;
        let call = symbol(self.handle, &format!("__cuda_sim_call_{name}")).ok_or(Code::NotFound)?;
        // SAFETY: cuda-sim-cc defines every `__cuda_sim_call_…` with this type.
        let call = unsafe { std::mem::transmute::<*mut c_void, Call>(call) };
        Ok(Kernel { kernel, call, run: self.run })
    }

    /// Address and size of a variable.
    pub(super) fn variable(self, name: &str) -> Answer<(u64, u64)> {
        let start = symbol(self.handle, name).ok_or(Code::NotFound)?;
        // SAFETY: Dl_info is plain data; all zero is one.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        let mut entry: *mut libc::Elf64_Sym = std::ptr::null_mut();
        const RTLD_DL_SYMENT: c_int = 1;
        // SAFETY: both out arguments are of this frame; `start` is an address of a loaded object.
        let found = unsafe { dladdr1(start, &raw mut info, (&raw mut entry).cast(), RTLD_DL_SYMENT) };
        if found == 0 || entry.is_null() {
            return Err(Code::NotFound);
        }
        // SAFETY: dladdr1 gave an entry of the loaded object's symbol table, which is never unloaded.
        let bytes = unsafe { (*entry).st_size };
        Ok((start.addr() as u64, bytes))
    }
}

unsafe extern "C" {
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        extra: *mut *mut c_void,
        flags: c_int,
    ) -> c_int;
}

fn symbol(handle: *mut c_void, name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).ok()?;
    let name: *const c_char = name.as_ptr();
    // SAFETY: the handle is dlopen's and stays open; the name is a C string.
    let found = unsafe { libc::dlsym(handle, name) };
    (!found.is_null()).then_some(found)
}

impl Kernel {
    /// Runs every thread of the grid and returns when the last has ended.
    pub(super) fn run(
        self,
        grid: [c_uint; 3],
        block: [c_uint; 3],
        shared: u64,
        arguments: u64,
    ) -> Answer<()> {
        let _one = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let arguments = bytes_at(arguments).cast::<*mut c_void>();
        // SAFETY: `call` takes as many arguments as the kernel has; cuda.h: kernelParams points to that many. What the kernel does with
        // them is the program's.
        let rc = unsafe {
            (self.run)(self.kernel, self.call, arguments, &raw const grid, &raw const block, shared)
        };
        if rc == 0 { Ok(()) } else { Err(Code::OutOfMemory) }
    }
}
