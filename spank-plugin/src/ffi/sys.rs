//! `slurm/spank.h` as bindgen reads it; see `build.rs` for whose header.
#![expect(
    non_camel_case_types,
    dead_code,
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]

include!(concat!(env!("OUT_DIR"), "/spank.rs"));
