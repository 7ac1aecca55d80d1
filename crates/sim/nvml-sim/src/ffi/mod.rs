//! The C functions of `libnvidia-ml.so.1`.
//!
//! Nothing here decides anything: a function converts its arguments, calls the engine once and writes the answer. The types are those of
//! `nvml-wrapper-sys`, generated from the real header.

mod abi;
mod device;
mod event;
mod field;
mod gpm;
mod health;
mod link;
mod load;
mod mig;
mod mig_ci;
mod power;
mod smi;
mod stubs;
mod system;

pub use stubs::NOT_SUPPORTED;

/// Every function that is implemented, by its C name.
#[must_use]
pub fn implemented() -> Vec<&'static str> {
    let all = [
        device::NAMES,
        event::NAMES,
        field::NAMES,
        gpm::NAMES,
        health::NAMES,
        link::NAMES,
        load::NAMES,
        mig::NAMES,
        mig_ci::NAMES,
        power::NAMES,
        smi::NAMES,
        system::NAMES,
    ];
    all.concat()
}
