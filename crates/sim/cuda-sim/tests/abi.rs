//! The binary interfaces: exported symbols, lists that went stale, names that are found.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::{library, ok, text};

fn listed(file: &'static str) -> BTreeSet<&'static str> {
    file.lines().filter(|l| !l.starts_with('#')).collect()
}

/// Functions of the header; programs of CUDA 11 also look for the first form of `cuGetProcAddress`.
fn driver_functions() -> BTreeSet<&'static str> {
    let mut all = listed(include_str!("../models/cuda-header-symbols.txt"));
    all.insert("cuGetProcAddress");
    all
}

fn runtime_functions() -> BTreeSet<&'static str> {
    listed(include_str!("../../cudart-sim/models/cudart-symbols.txt"))
}

fn exported(name: &str) -> BTreeSet<String> {
    let symbols = text(&ok(Command::new("nm").args(["-D", "--defined-only"]).arg(library(name))));
    symbols.lines().filter_map(|l| l.split_whitespace().nth(2)).map(str::to_owned).collect()
}

fn documented(page: &'static str) -> BTreeSet<&'static str> {
    let is_function = |w: &&str| {
        w.trim_start_matches('_').starts_with("cu") && !w.contains('.') && !w.starts_with("cudaError")
    };
    page.split('`').skip(1).step_by(2).filter(is_function).collect()
}

#[test]
fn every_function_is_implemented_or_listed_as_not() {
    let implemented: BTreeSet<_> = cuda::ffi::implemented().into_iter().map(|f| f.0).collect();
    let stubs: BTreeSet<_> = cuda::ffi::NOT_SUPPORTED.iter().copied().collect();
    assert_eq!(implemented.intersection(&stubs).count(), 0);
    assert_eq!(implemented.union(&stubs).copied().collect::<BTreeSet<_>>(), driver_functions());
    assert_eq!(documented(include_str!("../not-supported.md")), stubs);

    let implemented: BTreeSet<_> = cudart::ffi::implemented().into_iter().collect();
    let stubs: BTreeSet<_> = cudart::ffi::NOT_SUPPORTED.iter().copied().collect();
    assert_eq!(implemented.intersection(&stubs).count(), 0);
    assert_eq!(implemented.union(&stubs).copied().collect::<BTreeSet<_>>(), runtime_functions());
    assert_eq!(documented(include_str!("../../cudart-sim/not-supported.md")), stubs);
}

#[test]
fn the_libraries_export_exactly_these() {
    let names = |set: BTreeSet<&str>| set.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(exported("cuda"), names(driver_functions()));
    assert_eq!(exported("cudart"), names(runtime_functions()));
}

#[test]
fn the_libraries_have_their_names() {
    for (name, soname) in [("cuda", "[libcuda.so.1]"), ("cudart", "[libcudart.so.12]")] {
        let dynamic = text(&ok(Command::new("readelf").arg("-d").arg(library(name))));
        assert!(dynamic.lines().any(|l| l.contains("SONAME") && l.contains(soname)), "{dynamic}");
    }
}

#[test]
fn the_properties_struct_has_cudas_size() {
    assert_eq!(cudart::ffi::PROPERTIES_SIZE, 1032);
}

#[test]
fn errors_of_both_libraries_agree() {
    for (number, _, sentence) in cuda::core::code::ALL {
        let (name, ours) = cudart::error::describe(*number);
        assert!(name.starts_with("cudaError"), "{number}");
        assert_eq!(ours.trim_end_matches('\0'), *sentence, "{number}");
    }
    assert_eq!(cudart::error::describe(0).0, "cudaSuccess\0");
    assert_eq!(cudart::error::describe(77).0, "unrecognized error code\0");
}

/// `cuGetProcAddress` finds what programs write, which is not always what is exported.
#[test]
fn functions_are_found_by_the_names_of_the_header() {
    let address = |name: &str| cuda::ffi::find_function(name);
    let all = cuda::ffi::implemented();
    let exported = |name: &str| all.iter().find(|f| f.0 == name).map(|f| f.1);
    for (base, meant) in [
        ("cuMemAlloc", "cuMemAlloc_v2"),
        ("cuCtxCreate", "cuCtxCreate_v2"),
        ("cuGetProcAddress", "cuGetProcAddress_v2"),
        ("cuMemPrefetchAsync", "cuMemPrefetchAsync"),
        ("cuDeviceGetUuid", "cuDeviceGetUuid"),
        ("cuInit", "cuInit"),
    ] {
        assert!(exported(meant).is_some(), "{meant}");
        assert_eq!(address(base), exported(meant), "{base}");
    }
    assert!(driver_functions().iter().all(|name| address(name).is_some()));
    assert_eq!(address("cuNoSuchThing"), None);
}
