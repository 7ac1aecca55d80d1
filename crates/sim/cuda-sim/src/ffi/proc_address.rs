//! `cuGetProcAddress`: functions by the names that programs write.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::OnceLock;

use super::abi::{CText, Out, exports};
use super::stubs;
use crate::core::code::{Answer, Code};

/// Base names whose meaning in `cuda.h` of CUDA 12.8 cannot be told from what is exported.
const MEANT: [(&str, &str); 2] =
    [("cuCtxCreate", "cuCtxCreate_v2"), ("cuGetProcAddress", "cuGetProcAddress_v2")];

/// Every function by its exported name, and by the base name where only versions of it are exported.
fn table() -> &'static BTreeMap<String, usize> {
    static TABLE: OnceLock<BTreeMap<String, usize>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let exported: BTreeMap<&str, usize> =
            super::implemented().into_iter().chain(stubs::functions()).collect();
        let mut all: BTreeMap<String, usize> = BTreeMap::new();
        for (name, address) in &exported {
            // In this order `_v3` comes after `_v2`, and its own name after both.
            if let Some((base, _)) = versioned(name) {
                all.insert(base.to_owned(), *address);
            }
        }
        all.extend(exported.iter().map(|(name, address)| ((*name).to_owned(), *address)));
        let meant = MEANT.iter().filter_map(|(base, name)| Some(((*base).to_owned(), *exported.get(name)?)));
        all.extend(meant);
        all
    })
}

/// The address of a function, by the name that programs write for CUDA 12.8.
#[must_use]
pub fn find_function(name: &str) -> Option<usize> {
    table().get(name).copied()
}

fn versioned(name: &str) -> Option<(&str, &str)> {
    let (base, version) = name.rsplit_once("_v")?;
    version.parse::<u32>().ok().map(|_| (base, version))
}

/// `CUdriverProcAddressQueryResult`.
const FOUND: c_uint = 0;
const NOT_FOUND: c_uint = 1;

fn find(symbol: CText, out: Out<usize>, status: Option<Out<c_uint>>) -> Answer<()> {
    let name = symbol.get()?;
    if out.is_null() {
        return Err(Code::InvalidValue);
    }
    let found = find_function(&name);
    if let Some(status) = status {
        status.put_if(if found.is_some() { FOUND } else { NOT_FOUND })?;
    }
    out.put(found.unwrap_or(0))?;
    found.map(drop).ok_or(Code::NotFound)
}

exports! {
    fn cuGetProcAddress(symbol: CText, out: Out<usize>, _version: c_int, _flags: u64) { find(symbol, out, None) }
    fn cuGetProcAddress_v2(symbol: CText, out: Out<usize>, _version: c_int, _flags: u64, status: Out<c_uint>) {
        find(symbol, out, Some(status))
    }
}
