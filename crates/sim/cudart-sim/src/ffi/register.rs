//! Kernels and variables by the addresses of their host sides, as the constructors that a compiler makes register them.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_uint};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::abi::CText;
use super::driver;
use super::state::context;
use crate::error::{Answer, Error};

/// What is registered, and what of it is loaded in which context.
#[derive(Default)]
struct Registry {
    /// GPU binaries by handle.
    binaries: HashMap<u64, u64>,
    last: u64,
    kernels: HashMap<u64, Named>,
    variables: HashMap<u64, Named>,
    modules: HashMap<(u64, u64), u64>,
    functions: HashMap<(u64, u64), u64>,
}

/// A name in a binary.
#[derive(Clone)]
struct Named {
    binary: u64,
    name: CString,
}

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// The module of a binary in a context, loaded when it is first used.
    fn module(&mut self, binary: u64, context: u64) -> Answer<u64> {
        if let Some(module) = self.modules.get(&(binary, context)) {
            return Ok(*module);
        }
        let image = self.binaries.get(&binary).ok_or(Error::INVALID_FUNCTION)?;
        let mut module = 0;
        driver::load_module(&mut module, *image)?;
        self.modules.insert((binary, context), module);
        Ok(module)
    }
}

/// The driver's function for a kernel's host side, in the current context.
pub(super) fn function(host: u64) -> Answer<u64> {
    let context = context()?;
    let mut all = registry();
    if let Some(function) = all.functions.get(&(host, context)) {
        return Ok(*function);
    }
    let named = all.kernels.get(&host).cloned().ok_or(Error::INVALID_FUNCTION)?;
    let module = all.module(named.binary, context)?;
    let mut function = 0;
    driver::module_function(&mut function, module, named.name.as_ptr())
        .map_err(|_| Error::INVALID_FUNCTION)?;
    all.functions.insert((host, context), function);
    Ok(function)
}

/// Address and size of the variable behind a host side, in the current context.
pub(super) fn variable(host: u64) -> Answer<(u64, u64)> {
    let context = context()?;
    let mut all = registry();
    let named = all.variables.get(&host).cloned().ok_or(Error::INVALID_SYMBOL)?;
    let module = all.module(named.binary, context)?;
    let (mut address, mut bytes) = (0, 0);
    driver::module_global(&mut address, &mut bytes, module, named.name.as_ptr())
        .map_err(|_| Error::INVALID_SYMBOL)?;
    Ok((address, bytes))
}

/// The functions of this module.
pub(super) const NAMES: &[&str] = &[
    "__cudaRegisterFatBinary",
    "__cudaRegisterFatBinaryEnd",
    "__cudaUnregisterFatBinary",
    "__cudaRegisterFunction",
    "__cudaRegisterVar",
];

fn add(name: CText, binary: u64, insert: impl FnOnce(&mut Registry, Named)) {
    if let Ok(name) = name.get()
        && let Ok(name) = CString::new(name)
    {
        insert(&mut registry(), Named { binary, name });
    }
}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFatBinary(binary: u64) -> u64 {
    let mut all = registry();
    all.last += 16;
    let handle = all.last;
    all.binaries.insert(handle, binary);
    handle
}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFatBinaryEnd(_handle: u64) {}

/// What is registered stays: an unloaded library's kernels are never called again, and its module is the context's.
#[unsafe(no_mangle)]
extern "C" fn __cudaUnregisterFatBinary(_handle: u64) {}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFunction(
    handle: u64,
    host: u64,
    _device_function: u64,
    name: CText,
    _threads: c_int,
    _thread: u64,
    _block: u64,
    _block_dim: u64,
    _grid_dim: u64,
    _warp_size: u64,
) {
    add(name, handle, |all, named| drop(all.kernels.insert(host, named)));
}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterVar(
    handle: u64,
    host: u64,
    _device_address: u64,
    name: CText,
    _external: c_int,
    _bytes: u64,
    _constant: c_int,
    _global: c_uint,
) {
    add(name, handle, |all, named| drop(all.variables.insert(host, named)));
}
