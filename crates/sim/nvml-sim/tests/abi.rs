//! The binary interface: struct sizes, exported symbols, no list that went stale.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use nvml_wrapper_sys::bindings as sys;

/// Functions of the header, as the bindings name them.
fn header() -> BTreeSet<&'static str> {
    include_str!("../models/nvml-header-symbols.txt").lines().filter(|l| !l.starts_with('#')).collect()
}

/// Sizes on x86-64 compiled from nvml.h 13.3.
#[test]
fn struct_sizes_are_the_headers() {
    assert_eq!(size_of::<sys::nvmlGpuInstancePlacement_t>(), 8);
    assert_eq!(size_of::<sys::nvmlGpuInstanceProfileInfo_t>(), 48);
    assert_eq!(size_of::<sys::nvmlGpuInstanceProfileInfo_v2_t>(), 152);
    assert_eq!(size_of::<sys::nvmlGpuInstanceProfileInfo_v3_t>(), 152);
    assert_eq!(std::mem::offset_of!(sys::nvmlGpuInstanceProfileInfo_v2_t, memorySizeMB), 48);
    assert_eq!(std::mem::offset_of!(sys::nvmlGpuInstanceProfileInfo_v2_t, name), 56);
    assert_eq!(std::mem::offset_of!(sys::nvmlGpuInstanceProfileInfo_v3_t, memorySizeMB), 40);
    assert_eq!(std::mem::offset_of!(sys::nvmlGpuInstanceProfileInfo_v3_t, name), 48);
    assert_eq!(std::mem::offset_of!(sys::nvmlGpuInstanceProfileInfo_v3_t, capabilities), 144);
    assert_eq!(size_of::<sys::nvmlGpuInstanceInfo_t>(), 24);
    assert_eq!(size_of::<sys::nvmlComputeInstancePlacement_t>(), 8);
    assert_eq!(size_of::<sys::nvmlComputeInstanceProfileInfo_t>(), 36);
    assert_eq!(size_of::<sys::nvmlComputeInstanceProfileInfo_v2_t>(), 136);
    assert_eq!(size_of::<sys::nvmlComputeInstanceProfileInfo_v3_t>(), 140);
    assert_eq!(size_of::<sys::nvmlComputeInstanceInfo_t>(), 32);
    assert_eq!(size_of::<sys::nvmlDeviceAttributes_t>(), 40);
}

#[test]
fn every_function_of_the_header_is_listed_once() {
    let implemented: BTreeSet<_> = nvidia_ml::ffi::implemented().into_iter().collect();
    let stubs: BTreeSet<_> = nvidia_ml::ffi::NOT_SUPPORTED.iter().copied().collect();
    assert_eq!(implemented.intersection(&stubs).count(), 0);
    // Beside the header's: what nvidia-smi alone asks for.
    let mut expected = header();
    expected.insert("nvmlInternalGetExportTable");
    let listed: BTreeSet<_> = implemented.union(&stubs).copied().collect();
    assert_eq!(listed, expected);
}

#[test]
fn the_library_exports_exactly_the_listed_functions() {
    let output = common::ok(Command::new("nm").args(["-D", "--defined-only"]).arg(common::library()));
    let text = common::text(&output);
    let exported: BTreeSet<_> =
        text.lines().filter_map(|l| l.split_whitespace().nth(2)).filter(|n| n.starts_with("nvml")).collect();
    let mut expected = header();
    expected.insert("nvmlInternalGetExportTable");
    assert_eq!(exported, expected);
}

#[test]
fn the_library_has_its_soname() {
    let output = common::ok(Command::new("readelf").arg("-d").arg(common::library()));
    assert!(common::text(&output).contains("libnvidia-ml.so.1"));
}

#[test]
fn the_documentation_lists_what_is_not_supported() {
    let text = include_str!("../not-supported.md");
    let documented: BTreeSet<_> =
        text.split('`').filter(|w| w.starts_with("nvml") && !w.contains('.')).collect();
    assert_eq!(documented, nvidia_ml::ffi::NOT_SUPPORTED.iter().copied().collect());
}
