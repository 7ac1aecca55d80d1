//! What the driver knows of an address.

use std::ffi::{c_int, c_uint};

use super::abi::{Out, driver, exports};
use crate::core::code::{Answer, Code};
use crate::core::memory::{Kind, Range};

/// `CUmemorytype`.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;

/// The ordinal of the device that a range goes with.
fn ordinal_of(range: &Range) -> Answer<c_int> {
    let ordinal = match (range.kind, range.context()) {
        (Kind::Mapped { device }, _) => device,
        (_, Some(context)) => driver()?.context(context)?.0,
        _ => return Err(Code::InvalidValue),
    };
    c_int::try_from(ordinal).map_err(|_| Code::Unknown)
}

/// Writes one attribute of a known address; `false` for one that this driver does not have.
fn put(out: Out<u64>, attribute: c_uint, address: u64, range: &Range) -> Answer<bool> {
    match attribute {
        1 => out.put(range.context().unwrap_or(0))?,
        2 => out.cast::<c_uint>().put(if range.is_device() { DEVICE } else { HOST })?,
        3 => out.put(address)?,
        4 if matches!(range.kind, Kind::Device { .. } | Kind::Mapped { .. }) => {
            return Err(Code::InvalidValue);
        }
        4 => out.put(address)?,
        6 | 10 | 15 => out.cast::<c_uint>().put(0)?,
        7 => out.put(range.id)?,
        8 => out.cast::<c_uint>().put(c_uint::from(matches!(range.kind, Kind::Managed { .. })))?,
        9 => out.cast::<c_int>().put(ordinal_of(range)?)?,
        11 => out.put(range.start)?,
        12 => out.put(range.bytes)?,
        13 => out.cast::<c_uint>().put(1)?,
        14 => out.put(0)?,
        16 => out.cast::<c_uint>().put(3)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Writes 0, as `cuPointerGetAttributes` does for an address that nobody knows. The ordinal of no device is -2.
fn put_unknown(out: Out<u64>, attribute: c_uint) -> Answer<()> {
    match attribute {
        9 => out.cast::<c_int>().put(-2),
        2 | 6 | 8 | 10 | 13 | 15 | 16 => out.cast::<c_uint>().put(0),
        _ => out.put(0),
    }
}

exports! {
    fn cuPointerGetAttribute(out: Out<u64>, attribute: c_uint, address: u64) {
        let range = driver()?.range(address)?.ok_or(Code::InvalidValue)?;
        if put(out, attribute, address, &range)? { Ok(()) } else { Err(Code::NotSupported) }
    }
    fn cuPointerGetAttributes(count: c_uint, attributes: Out<c_uint>, data: Out<Out<u64>>, address: u64) {
        let range = driver()?.range(address)?;
        for i in 0..count as usize {
            let (attribute, out) = (attributes.at(i).get()?, data.at(i).get()?);
            let known = match &range {
                Some(range) => put(out, attribute, address, range).unwrap_or(false),
                None => false,
            };
            if !known {
                put_unknown(out, attribute)?;
            }
        }
        Ok(())
    }
    fn cuPointerSetAttribute(_value: u64, _attribute: c_uint, address: u64) {
        driver()?.range(address)?.map(drop).ok_or(Code::InvalidValue)
    }
}
