//! Modules and functions.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::abi::{CText, Out, exports, here};
use super::image::{Image, Kernel};
use crate::core::code::{Answer, Code};

/// Handles start here, away from the driver's own.
const FIRST_HANDLE: u64 = 0x20_0000;

/// Modules and functions by handle.
#[derive(Default)]
struct Loaded {
    last: u64,
    modules: BTreeMap<u64, Image>,
    functions: BTreeMap<u64, Function>,
}

/// A function of a module.
struct Function {
    module: u64,
    name: CString,
    kernel: Kernel,
}

static LOADED: Mutex<Loaded> =
    Mutex::new(Loaded { last: FIRST_HANDLE, modules: BTreeMap::new(), functions: BTreeMap::new() });

fn loaded() -> MutexGuard<'static, Loaded> {
    LOADED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kernel of a function.
pub(super) fn kernel(function: u64) -> Answer<Kernel> {
    loaded().functions.get(&function).map(|f| f.kernel).ok_or(Code::InvalidHandle)
}

fn add(out: Out<u64>, load: impl FnOnce() -> Answer<Image>) -> Answer<()> {
    let (driver, context) = here()?;
    driver.context(context)?;
    if out.is_null() {
        return Err(Code::InvalidValue);
    }
    let image = load()?;
    let mut all = loaded();
    all.last += 16;
    let handle = all.last;
    all.modules.insert(handle, image);
    out.put(handle)
}

fn module(handle: u64) -> Answer<Image> {
    here()?;
    loaded().modules.get(&handle).copied().ok_or(Code::InvalidHandle)
}

/// `CUfunction_attribute`: what a kernel compiled for the host has.
fn attribute(which: c_int) -> Option<c_int> {
    match which {
        0 => Some(1024),   // threads per block
        1..=3 => Some(0),  // shared, constant, local bytes
        4 => Some(32),     // registers
        5 | 6 => Some(80), // PTX and binary version
        7 | 9 => Some(0),  // caching, carveout
        8 => Some(49_152), // dynamic shared bytes
        10..=15 => Some(0),
        _ => None,
    }
}

exports! {
    fn cuModuleLoadData(out: Out<u64>, image: u64) { add(out, || Image::at(image)) }
    fn cuModuleLoadDataEx(out: Out<u64>, image: u64, _n: c_uint, _options: u64, _values: u64) {
        add(out, || Image::at(image))
    }
    fn cuModuleLoadFatBinary(out: Out<u64>, image: u64) { add(out, || Image::at(image)) }
    fn cuModuleLoad(out: Out<u64>, path: CText) {
        add(out, || {
            let bytes = std::fs::read(path.get()?).map_err(|_| Code::FileNotFound)?;
            if bytes.starts_with(b"\x7fELF") { Image::load(&bytes) } else { Err(Code::NoBinaryForGpu) }
        })
    }
    fn cuModuleUnload(handle: u64) {
        module(handle)?;
        let mut all = loaded();
        all.modules.remove(&handle);
        all.functions.retain(|_, f| f.module != handle);
        Ok(())
    }
    fn cuModuleGetLoadingMode(out: Out<c_uint>) { out.put(1) }
    fn cuModuleGetFunction(out: Out<u64>, handle: u64, name: CText) {
        let image = module(handle)?;
        let name = name.get()?;
        let mut all = loaded();
        let known = all.functions.iter().find(|(_, f)| f.module == handle && f.name.to_bytes() == name.as_bytes());
        if let Some((id, _)) = known {
            return out.put(*id);
        }
        let kernel = image.kernel(&name)?;
        all.last += 16;
        let id = all.last;
        let name = CString::new(name).map_err(|_| Code::InvalidValue)?;
        all.functions.insert(id, Function { module: handle, name, kernel });
        out.put(id)
    }
    fn cuModuleGetGlobal_v2(address: Out<u64>, bytes: Out<u64>, handle: u64, name: CText) {
        let (start, size) = module(handle)?.variable(&name.get()?)?;
        let (driver, context) = here()?;
        if driver.range(start)?.is_none() {
            // Copies to and from it are legal.
            driver.register(context, start, size)?;
        }
        address.put_if(start)?;
        bytes.put_if(size)
    }
    fn cuFuncGetAttribute(out: Out<c_int>, which: c_int, function: u64) {
        kernel(function)?;
        out.put(attribute(which).ok_or(Code::InvalidValue)?)
    }
    fn cuFuncSetAttribute(function: u64, which: c_int, _value: c_int) {
        kernel(function)?;
        attribute(which).map(drop).ok_or(Code::InvalidValue)
    }
    fn cuFuncSetCacheConfig(function: u64, _config: c_uint) { kernel(function).map(drop) }
    fn cuFuncGetModule(out: Out<u64>, function: u64) {
        let module = loaded().functions.get(&function).map(|f| f.module).ok_or(Code::InvalidHandle)?;
        out.put(module)
    }
    fn cuFuncGetName(out: Out<*const c_char>, function: u64) {
        // The text lives as long as the function.
        let name = loaded().functions.get(&function).map(|f| f.name.as_ptr()).ok_or(Code::InvalidHandle)?;
        out.put(name)
    }
}
