//! Field values: the numbered questions of `nvmlDeviceGetFieldValues`.

use std::ffi::c_int;

use nvml_wrapper_sys::bindings as sys;
use nvml_wrapper_sys::bindings::field_id as fi;

use super::abi::{Out, Ref, exports};
use super::health::has;
use super::link::nvlink_version;
use super::power::reading;
use crate::engine::code::{Answer, Code};
use crate::engine::fault::Kind;
use crate::engine::session::Session;
use crate::engine::state::State;

/// An answer with its C type.
enum Value {
    Uint(u32),
    Ullong(u64),
}

/// Rate of one NVLink connection in one direction, MB/s: 20 GB/s on P100, 25 on V100 to H100, 50 on Blackwell, as
/// `nvidia-smi nvlink -s` has them.
fn link_mbps(state: &State, gpu: u32) -> Answer<u32> {
    Ok(match nvlink_version(state, gpu)? {
        1 => 19_531,
        6 => 26_562,
        7.. => 53_125,
        _ => 25_781,
    })
}

fn answer(session: &Session, state: &State, gpu: u32, field: u32, scope: u32) -> Answer<Value> {
    let links = state.nvlinks(gpu);
    let n_links = u32::try_from(links.len()).unwrap_or(0);
    let (min, default) = state.power_constraints(gpu)?;
    // Scope 0 is the GPU; module and memory are measured on other boards.
    if matches!(field, fi::NVML_FI_DEV_POWER_AVERAGE..=fi::NVML_FI_DEV_POWER_REQUESTED_LIMIT) && scope != 0 {
        return Err(Code::NotSupported);
    }
    let has_link = |index: u32| if state.link_up(gpu, index) { Ok(()) } else { Err(Code::NotSupported) };
    Ok(match field {
        fi::NVML_FI_DEV_ECC_CURRENT | fi::NVML_FI_DEV_ECC_PENDING => Value::Uint(1),
        fi::NVML_FI_DEV_ECC_SBE_VOL_TOTAL..=fi::NVML_FI_DEV_RETIRED_DBE => Value::Ullong(0),
        fi::NVML_FI_DEV_RETIRED_PENDING => Value::Uint(0),
        // NVLink error counters of links 0 to 5 and their totals.
        32..=59 => Value::Ullong(0),
        fi::NVML_FI_DEV_MEMORY_TEMP => Value::Uint(38),
        fi::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION => {
            Value::Ullong(reading(session, state, gpu)?.energy_nj / 1_000_000)
        }
        fi::NVML_FI_DEV_PERF_POLICY_POWER => Value::Ullong(reading(session, state, gpu)?.capped_ns),
        fi::NVML_FI_DEV_PERF_POLICY_THERMAL..=fi::NVML_FI_DEV_PERF_POLICY_RELIABILITY => Value::Ullong(0),
        fi::NVML_FI_DEV_NVLINK_SPEED_MBPS_L0..=fi::NVML_FI_DEV_NVLINK_SPEED_MBPS_L5 => {
            has_link(field - fi::NVML_FI_DEV_NVLINK_SPEED_MBPS_L0)?;
            Value::Uint(link_mbps(state, gpu)?)
        }
        fi::NVML_FI_DEV_NVLINK_SPEED_MBPS_L6..=fi::NVML_FI_DEV_NVLINK_SPEED_MBPS_L11 => {
            has_link(6 + field - fi::NVML_FI_DEV_NVLINK_SPEED_MBPS_L6)?;
            Value::Uint(link_mbps(state, gpu)?)
        }
        fi::NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON => {
            (0..n_links).find(|l| state.link_up(gpu, *l)).ok_or(Code::NotSupported)?;
            Value::Uint(link_mbps(state, gpu)?)
        }
        fi::NVML_FI_DEV_NVLINK_LINK_COUNT => Value::Uint(state.chip(gpu)?.board.links.max(n_links)),
        // Of all links together; what each has carried is not simulated.
        fi::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX | fi::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX
            if scope == u32::MAX && !links.is_empty() =>
        {
            let [sent, received] = reading(session, state, gpu)?.nvlink;
            let is_sent = field == fi::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX;
            Value::Ullong(if is_sent { sent } else { received } / 1024)
        }
        fi::NVML_FI_DEV_PCIE_REPLAY_COUNTER | fi::NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER => Value::Uint(0),
        fi::NVML_FI_DEV_REMAPPED_COR | fi::NVML_FI_DEV_REMAPPED_UNC => Value::Uint(0),
        fi::NVML_FI_DEV_REMAPPED_PENDING => Value::Uint(has(state, gpu, &Kind::RemapPending)?),
        fi::NVML_FI_DEV_REMAPPED_FAILURE => Value::Uint(has(state, gpu, &Kind::RemapFailed)?),
        fi::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION => Value::Uint(has(state, gpu, &Kind::NeedsReset)?),
        fi::NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT => {
            Value::Uint(state.node.switch_links.get(gpu as usize).copied().unwrap_or(0))
        }
        fi::NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID => {
            has_link(scope)?;
            Value::Uint(state.far_link(gpu, scope).ok_or(Code::NotSupported)?)
        }
        fi::NVML_FI_DEV_NVLINK_GET_SPEED => {
            has_link(scope)?;
            Value::Uint(link_mbps(state, gpu)?)
        }
        fi::NVML_FI_DEV_NVLINK_GET_STATE => Value::Uint(state.link_up(gpu, scope).into()),
        fi::NVML_FI_DEV_NVLINK_GET_VERSION => Value::Uint(nvlink_version(state, gpu)?),
        fi::NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED => Value::Uint((!state.chip(gpu)?.needs_reset()).into()),
        fi::NVML_FI_DEV_POWER_AVERAGE | fi::NVML_FI_DEV_POWER_INSTANT => {
            Value::Uint(state.load(gpu)?.power_mw)
        }
        fi::NVML_FI_DEV_POWER_MIN_LIMIT => Value::Uint(min),
        fi::NVML_FI_DEV_POWER_MAX_LIMIT | fi::NVML_FI_DEV_POWER_DEFAULT_LIMIT => Value::Uint(default),
        fi::NVML_FI_DEV_POWER_CURRENT_LIMIT => Value::Uint(state.enforced_limit(gpu)?),
        fi::NVML_FI_DEV_POWER_REQUESTED_LIMIT => Value::Uint(state.gpu(gpu)?.power_limit_mw),
        fi::NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE => {
            Value::Uint(super::mig::mode_independent(state).into())
        }
        _ => return Err(Code::NotSupported),
    })
}

fn fill(session: &Session, state: &State, gpu: u32, value: &mut sys::nvmlFieldValue_t) {
    value.timestamp = i64::try_from(crate::engine::fault::now_ms()).unwrap_or(0) * 1000;
    value.latencyUsec = 1;
    match answer(session, state, gpu, value.fieldId, value.scopeId) {
        Ok(Value::Uint(v)) => {
            value.valueType = sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT;
            value.nvmlReturn = 0;
            value.value = sys::nvmlValue_t { ullVal: v.into() };
        }
        Ok(Value::Ullong(v)) => {
            value.valueType = sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
            value.nvmlReturn = 0;
            value.value = sys::nvmlValue_t { ullVal: v };
        }
        Err(code) => value.nvmlReturn = code as sys::nvmlReturn_t,
    }
}

exports! {
    fn nvmlDeviceGetFieldValues(device: Ref, count: c_int, values: Out<sys::nvmlFieldValue_t>) |session, state| {
        let gpu = device.gpu_of_any(session, state)?;
        let count = usize::try_from(count).map_err(|_| Code::InvalidArgument)?;
        for i in 0..count {
            let slot = values.at(i);
            let mut value = slot.get()?;
            fill(session, state, gpu, &mut value);
            slot.put(value)?;
        }
        Ok(())
    }
}
