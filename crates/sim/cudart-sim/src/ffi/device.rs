//! Devices and versions.

use std::ffi::{c_char, c_int, c_uint};

use super::abi::{CText, Out, exports};
use super::driver;
use super::properties::{Properties, read};
use super::state::{check_device, count, start};
use crate::error::Error;

/// The version that this runtime is of.
const RUNTIME: c_int = 12_080;

exports! {
    fn cudaGetDeviceCount(out: Out<c_int>) {
        match count() {
            Ok(count) => out.put(count),
            // Without a device the count is 0, and that is an error too.
            Err(error) => out.put(0).and(Err(error)),
        }
    }
    fn cudaGetDeviceProperties_v2(out: Out<Properties>, device: c_int) { out.put(read(check_device(device)?)?) }
    fn cudaDeviceGetAttribute(out: Out<c_int>, attribute: c_int, device: c_int) {
        check_device(device)?;
        let mut value = 0;
        driver::device_attribute(&mut value, attribute, device)?;
        out.put(value)
    }
    fn cudaChooseDevice(out: Out<c_int>, _wanted: u64) {
        check_device(0)?;
        out.put(0)
    }
    fn cudaDeviceGetPCIBusId(name: Out<c_char>, length: c_int, device: c_int) {
        check_device(device)?;
        driver::device_bus_id(name.address(), length, device)
    }
    fn cudaDeviceGetByPCIBusId(out: Out<c_int>, name: CText) {
        start()?;
        let mut device = 0;
        driver::device_by_bus_id(&mut device, name.address())?;
        out.put(device)
    }
    fn cudaDeviceCanAccessPeer(out: Out<c_int>, device: c_int, peer: c_int) {
        check_device(device)?;
        check_device(peer)?;
        let mut can = 0;
        driver::can_access_peer(&mut can, device, peer)?;
        out.put(can)
    }
    fn cudaDeviceEnablePeerAccess(peer: c_int, flags: c_uint) {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        check_device(peer).map(drop)
    }
    fn cudaDeviceDisablePeerAccess(peer: c_int) { check_device(peer).map(drop) }
    fn cudaDriverGetVersion(out: Out<c_int>) {
        let mut version = 0;
        // Without a driver the version is 0.
        let _ = driver::driver_version(&mut version);
        out.put(version)
    }
    fn cudaRuntimeGetVersion(out: Out<c_int>) { out.put(RUNTIME) }
    fn cudaGetDriverEntryPoint(name: CText, out: Out<u64>, _flags: u64, status: Out<c_uint>) {
        let found = driver::address(&name.get()?);
        if !status.is_null() {
            status.put(c_uint::from(found.is_err()))?;
        }
        out.put(found.map_or(0, |address| address.expose_provenance() as u64))
    }
}
