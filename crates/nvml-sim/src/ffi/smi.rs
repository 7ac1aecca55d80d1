//! TEMP
use std::ffi::{c_uint, c_void};
use super::abi::{guard, Out};

pub(super) const NAMES: &[&str] = &["nvmlInternalGetExportTable"];

type Slot = extern "C" fn(usize, usize, usize, usize) -> c_uint;

#[repr(C)]
struct Table { size: usize, slots: [Slot; 511] }

extern "C" fn slot<const N: usize>(a: usize, b: usize, c: usize, d: usize) -> c_uint {
    if std::env::var_os("NVML_SIM_TRACE").is_some() { eprintln!("slot {N}: {a:#x} {b:#x} {c:#x} {d:#x}"); }
    let force = std::env::var("NVML_SIM_RC").ok().and_then(|v| v.parse().ok()).unwrap_or(3);
    super::smi_answer(N, a, b, c).unwrap_or(force)
}

macro_rules! row16 { ($($b:expr),*) => { [$(
  slot::<{$b}>, slot::<{$b+1}>, slot::<{$b+2}>, slot::<{$b+3}>, slot::<{$b+4}>, slot::<{$b+5}>, slot::<{$b+6}>, slot::<{$b+7}>,
  slot::<{$b+8}>, slot::<{$b+9}>, slot::<{$b+10}>, slot::<{$b+11}>, slot::<{$b+12}>, slot::<{$b+13}>, slot::<{$b+14}>, slot::<{$b+15}>),*] } }
static ALL: [Slot; 512] = row16!(0,16,32,48,64,80,96,112,128,144,160,176,192,208,224,240,256,272,288,304,320,336,352,368,384,400,416,432,448,464,480,496);
static TABLE: Table = Table { size: 4096, slots: { let mut t: [Slot; 511] = [slot::<0>; 511]; let mut i = 0; while i < 511 { t[i] = ALL[i+1]; i += 1; } t } };

#[unsafe(no_mangle)]
extern "C" fn nvmlInternalGetExportTable(out: Out<*const c_void>, id: Out<[u8; 16]>) -> c_uint {
    guard(|| {
        if std::env::var_os("NVML_SIM_TRACE").is_some() { eprintln!("table {:02x?}", id.get()?); }
        out.put((&raw const TABLE).cast())
    })
}
