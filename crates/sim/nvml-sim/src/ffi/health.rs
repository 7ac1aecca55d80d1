//! Health, ECC, modes: a simulated board is well as long as no fault says otherwise.

use std::ffi::{c_char, c_int, c_uint};

use super::abi::{Out, Ref, exports};
use crate::engine::code::{Answer, Code};
use crate::engine::fault::{self, Kind};
use crate::engine::state::State;

/// `NVML_MEMORY_ERROR_TYPE_UNCORRECTED`.
const UNCORRECTED: c_uint = 1;

/// 1 if a fault of this kind is in force, else 0.
pub(super) fn has(state: &State, gpu: u32, what: &Kind) -> Answer<c_uint> {
    Ok(fault::value(&state.gpu(gpu)?.faults, |kind| (kind == what).then_some(1)).unwrap_or(0))
}

fn uncorrected(state: &State, gpu: u32) -> Answer<u64> {
    let count = |kind: &Kind| if let Kind::EccUncorrected(n) = kind { Some(*n) } else { None };
    Ok(fault::value(&state.gpu(gpu)?.faults, count).unwrap_or(0))
}

exports! {
    fn nvmlDeviceGetEccMode(device: Ref, current: Out<c_uint>, pending: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        current.put(1)?;
        pending.put(1)
    }
    fn nvmlDeviceGetDefaultEccMode(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(1)
    }
    fn nvmlDeviceGetTotalEccErrors(device: Ref, kind: c_uint, counter: c_uint, out: Out<u64>) |session, state| {
        let gpu = device.gpu_of_any(session, state)?;
        if kind > 1 || counter > 1 {
            return Err(Code::InvalidArgument);
        }
        out.put(if kind == UNCORRECTED { uncorrected(state, gpu)? } else { 0 })
    }
    fn nvmlDeviceGetMemoryErrorCounter(
        device: Ref, kind: c_uint, counter: c_uint, location: c_uint, out: Out<u64>,
    ) |session, state| {
        device.gpu_of_any(session, state)?;
        if kind > 1 || counter > 1 {
            return Err(Code::InvalidArgument);
        }
        match location {
            // L1, L2, DRAM, register file, SRAM.
            0 | 1 | 2 | 3 | 7 => out.put(0),
            _ => Err(Code::NotSupported),
        }
    }
    fn nvmlDeviceGetRetiredPages(device: Ref, _cause: c_uint, count: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        count.put(0)
    }
    fn nvmlDeviceGetRetiredPages_v2(device: Ref, _cause: c_uint, count: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        count.put(0)
    }
    fn nvmlDeviceGetRetiredPagesPendingStatus(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(0)
    }
    fn nvmlDeviceGetRemappedRows(
        device: Ref, correctable: Out<c_uint>, uncorrectable: Out<c_uint>, pending: Out<c_uint>, failed: Out<c_uint>,
    ) |session, state| {
        let gpu = device.gpu(session, state)?;
        correctable.put(0)?;
        uncorrectable.put(0)?;
        pending.put(has(state, gpu, &Kind::RemapPending)?)?;
        failed.put(has(state, gpu, &Kind::RemapFailed)?)
    }
    fn nvmlDeviceGetDisplayMode(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(0)
    }
    fn nvmlDeviceGetDisplayActive(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(0)
    }
    fn nvmlDeviceGetAccountingMode(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(0)
    }
    fn nvmlDeviceGetAccountingBufferSize(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(4000)
    }
    fn nvmlDeviceGetVirtualizationMode(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu_of_any(session, state)?;
        out.put(0)
    }
    fn nvmlDeviceGetGspFirmwareMode(device: Ref, enabled: Out<c_uint>, default: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        enabled.put(1)?;
        default.put(1)
    }
    fn nvmlDeviceGetGspFirmwareVersion(device: Ref, out: Out<c_char>) |session, state| {
        device.gpu(session, state)?;
        // The buffer has no length argument: `NVML_GSP_FIRMWARE_VERSION_BUF_SIZE`.
        out.put_text(64, &state.node.driver_version)
    }
    fn nvmlDeviceGetInforomImageVersion(device: Ref, out: Out<c_char>, length: c_uint) |session, state| {
        device.gpu(session, state)?;
        out.put_text(length, "SIM.0000.00.00")
    }
    fn nvmlDeviceGetAPIRestriction(device: Ref, kind: c_uint, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        if kind > 1 {
            return Err(Code::InvalidArgument);
        }
        out.put(0)
    }
    fn nvmlDeviceGetNumFans(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(0)
    }
    fn nvmlDeviceGetEncoderStats(
        device: Ref, sessions: Out<c_uint>, fps: Out<c_uint>, latency: Out<c_uint>,
    ) |session, state| {
        device.gpu_of_any(session, state)?;
        sessions.put(0)?;
        fps.put(0)?;
        latency.put(0)
    }
    fn nvmlDeviceValidateInforom(device: Ref) |session, state| {
        device.gpu(session, state)?;
        Ok(())
    }
    fn nvmlDeviceQueryDrainState(
        pci: Out<nvml_wrapper_sys::bindings::nvmlPciInfo_st>, out: Out<c_uint>,
    ) |session, state| {
        let pci = pci.get()?;
        let known = state.node.gpus.iter().any(|g| g.pci == [pci.domain, pci.bus, pci.device]);
        if known { out.put(0) } else { Err(Code::NotFound) }
    }
    fn nvmlDeviceGetMarginTemperature(
        device: Ref, out: Out<nvml_wrapper_sys::bindings::nvmlMarginTemperature_v1_t>,
    ) |session, state| {
        device.gpu(session, state)?;
        let mut value = out.get()?;
        let margin: c_int = 50;
        value.marginTemperature = margin;
        out.put(value)
    }
}
