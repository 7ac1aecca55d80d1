//! Initialisation, devices, error texts.

use std::ffi::{CString, c_char, c_int, c_uint};
use std::sync::OnceLock;

use super::abi::{CText, Out, driver, exports, open};
use crate::core::attribute::attribute;
use crate::core::code::{ALL, Answer, Code};
use crate::core::device::Device;

/// The device of an ordinal.
pub(super) fn device(ordinal: c_int) -> Answer<&'static Device> {
    driver()?.device(usize::try_from(ordinal).map_err(|_| Code::InvalidDevice)?)
}

/// An ordinal from C that names a device.
pub(super) fn ordinal(number: c_int) -> Answer<usize> {
    device(number)?;
    usize::try_from(number).map_err(|_| Code::InvalidDevice)
}

/// The version of a node that nobody has opened yet: `cuDriverGetVersion` needs no `cuInit`.
fn version() -> c_int {
    let of_node =
        || nvidia_ml::engine::session::Session::open().and_then(|s| s.state()).map(|s| s.node.cuda_version);
    driver().map(|d| d.cuda_version()).or_else(|_| of_node()).unwrap_or(0)
}

/// The sixteen bytes of a UUID in text; the prefix `GPU-` or `MIG-` is not among them.
fn uuid_bytes(text: &str) -> [u8; 16] {
    let digits: Vec<u8> =
        text.chars().skip(4).filter_map(|c| c.to_digit(16)).filter_map(|d| u8::try_from(d).ok()).collect();
    let mut out = [0; 16];
    for (slot, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *slot = pair.iter().fold(0, |value, digit| value << 4 | digit);
    }
    out
}

/// Name and sentence of each code as C strings that live for ever.
fn texts() -> &'static [(u32, CString, CString)] {
    static TEXTS: OnceLock<Vec<(u32, CString, CString)>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let success = [(0, "CUDA_SUCCESS", "no error")];
        let all = success.iter().chain(ALL);
        all.filter_map(|(n, name, text)| Some((*n, CString::new(*name).ok()?, CString::new(*text).ok()?)))
            .collect()
    })
}

fn text_of(
    number: c_uint,
    out: Out<*const c_char>,
    pick: impl Fn(&'static (u32, CString, CString)) -> &'static CString,
) -> Answer<()> {
    match texts().iter().find(|t| t.0 == number) {
        Some(found) => out.put(pick(found).as_ptr()),
        None => out.put(std::ptr::null()).and(Err(Code::InvalidValue)),
    }
}

fn bus_id(d: &Device) -> String {
    format!("{:04x}:{:02x}:{:02x}.0", d.pci[0], d.pci[1], d.pci[2])
}

exports! {
    fn cuInit(flags: c_uint) {
        if flags == 0 { open() } else { Err(Code::InvalidValue) }
    }
    fn cuDriverGetVersion(out: Out<c_int>) { out.put(version()) }
    fn cuDeviceGetCount(out: Out<c_int>) {
        out.put(c_int::try_from(driver()?.devices().len()).unwrap_or(c_int::MAX))
    }
    fn cuDeviceGet(out: Out<c_int>, number: c_int) {
        ordinal(number)?;
        out.put(number)
    }
    fn cuDeviceGetName(name: Out<c_char>, length: c_int, number: c_int) { name.put_text_cut(length, &device(number)?.name) }
    fn cuDeviceGetUuid | fn cuDeviceGetUuid_v2(out: Out<[u8; 16]>, number: c_int) {
        out.put(uuid_bytes(&device(number)?.uuid))
    }
    fn cuDeviceTotalMem_v2(out: Out<u64>, number: c_int) { out.put(device(number)?.total) }
    fn cuDeviceGetAttribute(out: Out<c_int>, which: c_int, number: c_int) {
        out.put(attribute(device(number)?, which).ok_or(Code::InvalidValue)?)
    }
    fn cuDeviceGetPCIBusId(name: Out<c_char>, length: c_int, number: c_int) {
        name.put_text_cut(length, &bus_id(device(number)?))
    }
    fn cuDeviceGetByPCIBusId(out: Out<c_int>, name: CText) {
        let wanted = name.get()?.to_ascii_lowercase();
        let found = driver()?.devices().iter().position(|d| bus_id(d) == wanted).ok_or(Code::InvalidDevice)?;
        out.put(c_int::try_from(found).unwrap_or(c_int::MAX))
    }
    fn cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, number: c_int) {
        let [high, low] = device(number)?.cc;
        major.put(high)?;
        minor.put(low)
    }
    fn cuDeviceCanAccessPeer(out: Out<c_int>, a: c_int, b: c_int) {
        ordinal(a)?;
        ordinal(b)?;
        out.put(c_int::from(a != b))
    }
    fn cuGetErrorName(number: c_uint, out: Out<*const c_char>) { text_of(number, out, |t| &t.1) }
    fn cuGetErrorString(number: c_uint, out: Out<*const c_char>) { text_of(number, out, |t| &t.2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_their_digits() {
        let bytes = uuid_bytes("GPU-c88d584a-984d-54e5-a717-76d28719db71");
        assert_eq!((bytes[0], bytes[7], bytes[15]), (0xc8, 0xe5, 0x71));
    }
}
