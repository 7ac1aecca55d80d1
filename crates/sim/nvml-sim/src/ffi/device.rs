//! Devices: enumeration, handles, identity.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings as sys;

use super::abi::{CText, Out, Ref, chars, exports, pointer};
use crate::engine::code::{Answer, Code};
use crate::engine::handle::Handle;
use crate::engine::node;
use crate::engine::session::Session;
use crate::engine::state::State;

fn bus_id(pci: [u32; 3], domain_digits: usize) -> String {
    let [domain, bus, device] = pci;
    format!("{domain:0domain_digits$X}:{bus:02X}:{device:02X}.0")
}

/// `nvmlPciInfo_t` of a GPU. The subsystem id is a fixed one: no capture ties it to a model.
pub(super) fn pci_info(state: &State, gpu: u32) -> Answer<sys::nvmlPciInfo_st> {
    let pci = spec(state, gpu)?.pci;
    Ok(sys::nvmlPciInfo_st {
        busIdLegacy: chars(&bus_id(pci, 4)),
        domain: pci[0],
        bus: pci[1],
        device: pci[2],
        pciDeviceId: state.chip(gpu)?.pci_device << 16 | 0x10de,
        pciSubSystemId: 0x1463_10de,
        busId: chars(&bus_id(pci, 8)),
    })
}

pub(super) fn spec(state: &State, gpu: u32) -> Answer<&node::GpuSpec> {
    state.node.gpus.get(gpu as usize).ok_or(Code::InvalidArgument)
}

fn by_bus_id(session: &Session, state: &State, text: &str) -> Answer<u32> {
    let wanted = node::pci_id(text).map_err(|_| Code::InvalidArgument)?;
    let mut visible = session.visible().iter();
    let found = visible.find(|g| spec(state, **g).is_ok_and(|s| s.pci == wanted));
    let gpu = session.gpu(state, Handle::Gpu(*found.ok_or(Code::NotFound)?))?;
    session.open_node(state, gpu);
    Ok(gpu)
}

fn name(session: &Session, state: &State, device: Ref) -> Answer<String> {
    let (gpu, mig) = session.any_gpu(state, device.get()?)?;
    let name = &spec(state, gpu)?.name;
    let Some(r) = mig else { return Ok(name.clone()) };
    let (gi, ci) = state.ci(r)?;
    let profile = state.chip(gpu)?.profile(gi.profile).ok_or(Code::Unknown)?;
    let ci = profile.cis.iter().find(|c| c.id == ci.profile).ok_or(Code::Unknown)?;
    Ok(format!("{name} MIG {}", ci.name))
}

fn count(session: &Session, out: Out<c_uint>) -> Answer<()> {
    out.put(c_uint::try_from(session.visible().len()).map_err(|_| Code::Unknown)?)
}

fn by_index(session: &Session, state: &State, index: c_uint, out: Out<sys::nvmlDevice_t>) -> Answer<()> {
    let gpu = session.by_index(index)?;
    session.open_node(state, gpu);
    out.put(pointer(Handle::Gpu(gpu)))
}

exports! {
    fn nvmlDeviceGetCount(out: Out<c_uint>) |session, state| { count(session, out) }
    fn nvmlDeviceGetCount_v2(out: Out<c_uint>) |session, state| { count(session, out) }
    fn nvmlDeviceGetHandleByIndex(index: c_uint, out: Out<sys::nvmlDevice_t>) |session, state| {
        by_index(session, state, index, out)
    }
    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, out: Out<sys::nvmlDevice_t>) |session, state| {
        by_index(session, state, index, out)
    }
    fn nvmlDeviceGetHandleByUUID(uuid: CText, out: Out<sys::nvmlDevice_t>) |session, state| {
        out.put(pointer(session.search_uuid(&uuid.get()?)?))
    }
    fn nvmlDeviceGetHandleByPciBusId(id: CText, out: Out<sys::nvmlDevice_t>) |session, state| {
        out.put(pointer(Handle::Gpu(by_bus_id(session, state, &id.get()?)?)))
    }
    fn nvmlDeviceGetHandleByPciBusId_v2(id: CText, out: Out<sys::nvmlDevice_t>) |session, state| {
        out.put(pointer(Handle::Gpu(by_bus_id(session, state, &id.get()?)?)))
    }
    fn nvmlDeviceGetHandleBySerial(serial: CText, out: Out<sys::nvmlDevice_t>) |session, state| {
        let serial = serial.get()?;
        let mut visible = session.visible().iter();
        let found = visible.find(|g| spec(state, **g).is_ok_and(|s| s.serial == serial));
        out.put(pointer(Handle::Gpu(*found.ok_or(Code::NotFound)?)))
    }
    fn nvmlDeviceGetName(device: Ref, out: Out<c_char>, length: c_uint) |session, state| {
        out.put_text(length, &name(session, state, device)?)
    }
    fn nvmlDeviceGetUUID(device: Ref, out: Out<c_char>, length: c_uint) |session, state| {
        let (gpu, mig) = session.any_gpu(state, device.get()?)?;
        let uuid = match mig {
            Some(r) => &state.ci(r)?.1.uuid,
            None => &spec(state, gpu)?.uuid,
        };
        out.put_text(length, uuid)
    }
    fn nvmlDeviceGetIndex(device: Ref, out: Out<c_uint>) |session, state| {
        let handle = device.get()?;
        if let Handle::Mig(r) = handle {
            session.any_gpu(state, handle)?;
            let devices = session.mig_devices(state, r.gpu)?;
            let index = devices.iter().position(|d| *d == r).ok_or(Code::NotFound)?;
            return out.put(c_uint::try_from(index).map_err(|_| Code::Unknown)?);
        }
        out.put(session.index_of(device.gpu(session, state)?)?)
    }
    fn nvmlDeviceGetMinorNumber(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(device.gpu_of_any(session, state)?)
    }
    fn nvmlDeviceGetSerial(device: Ref, out: Out<c_char>, length: c_uint) |session, state| {
        out.put_text(length, &spec(state, device.gpu(session, state)?)?.serial)
    }
    fn nvmlDeviceGetPciInfo(device: Ref, out: Out<sys::nvmlPciInfo_st>) |session, state| {
        out.put(pci_info(state, device.gpu_of_any(session, state)?)?)
    }
    fn nvmlDeviceGetPciInfo_v2(device: Ref, out: Out<sys::nvmlPciInfo_st>) |session, state| {
        out.put(pci_info(state, device.gpu_of_any(session, state)?)?)
    }
    fn nvmlDeviceGetPciInfo_v3(device: Ref, out: Out<sys::nvmlPciInfo_st>) |session, state| {
        out.put(pci_info(state, device.gpu_of_any(session, state)?)?)
    }
    fn nvmlDeviceGetPciInfoExt(device: Ref, out: Out<sys::nvmlPciInfoExt_v1_t>) |session, state| {
        if out.get()?.version != super::abi::version::<sys::nvmlPciInfoExt_v1_t>(1) {
            return Err(Code::VersionMismatch);
        }
        let info = pci_info(state, device.gpu_of_any(session, state)?)?;
        out.put(sys::nvmlPciInfoExt_v1_t {
            version: out.get()?.version,
            domain: info.domain,
            bus: info.bus,
            device: info.device,
            pciDeviceId: info.pciDeviceId,
            pciSubSystemId: info.pciSubSystemId,
            // PCI class 03 02: 3D controller.
            baseClass: 3,
            subClass: 2,
            busId: info.busId,
        })
    }
    fn nvmlDeviceGetBrand(device: Ref, out: Out<c_uint>) |session, state| {
        let gpu = device.gpu_of_any(session, state)?;
        let rtx = spec(state, gpu)?.name.contains("RTX");
        // NVML_BRAND_NVIDIA and NVML_BRAND_NVIDIA_RTX.
        out.put(if rtx { 12 } else { 14 })
    }
    fn nvmlDeviceGetArchitecture(device: Ref, out: Out<c_uint>) |session, state| {
        let arch = state.chip(device.gpu_of_any(session, state)?)?.model.arch.as_str();
        out.put(match arch {
            "ampere" => 7,
            "hopper" => 9,
            _ => 10,
        })
    }
    fn nvmlDeviceGetCudaComputeCapability(device: Ref, major: Out<c_int>, minor: Out<c_int>) |session, state| {
        let [a, b] = state.chip(device.gpu_of_any(session, state)?)?.board.cc;
        major.put(a)?;
        minor.put(b)
    }
    fn nvmlDeviceGetBoardPartNumber(device: Ref, out: Out<c_char>, length: c_uint) |session, state| {
        let gpu = device.gpu(session, state)?;
        out.put_text(length, &format!("SIM-{:04X}-100", state.chip(gpu)?.pci_device))
    }
    fn nvmlDeviceGetBoardId(device: Ref, out: Out<c_uint>) |session, state| {
        let [domain, bus, device] = spec(state, device.gpu(session, state)?)?.pci;
        out.put(domain << 16 | bus << 8 | device)
    }
    fn nvmlDeviceGetModuleId(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(device.gpu(session, state)? + 1)
    }
    fn nvmlDeviceGetMultiGpuBoard(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(0)
    }
    fn nvmlDeviceGetVbiosVersion(device: Ref, out: Out<c_char>, length: c_uint) |session, state| {
        device.gpu(session, state)?;
        out.put_text(length, "00.00.00.00.00")
    }
    fn nvmlDeviceOnSameBoard(a: Ref, b: Ref, out: Out<c_int>) |session, state| {
        out.put((a.gpu(session, state)? == b.gpu(session, state)?).into())
    }
    fn nvmlDeviceGetNumGpuCores(device: Ref, out: Out<c_uint>) |session, state| {
        let model = state.chip(device.gpu(session, state)?)?.model;
        out.put(model.full_gpu_sm * if model.arch == "ampere" { 64 } else { 128 })
    }
    fn nvmlDeviceGetIrqNum(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(200 + device.gpu(session, state)?)
    }
}
