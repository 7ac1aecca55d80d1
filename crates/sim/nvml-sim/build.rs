//! Gives the C library the name that programs were linked against.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Not `rustc-cdylib-link-arg`: cargo hands that on to the C libraries of packages that use this one, such as cuda-sim. This one
    // reaches programs and tests too. A program with the library's name would be taken for the library, so they get another.
    println!("cargo::rustc-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    println!("cargo::rustc-link-arg-bins=-Wl,-soname,nvml-sim");
    println!("cargo::rustc-link-arg-tests=-Wl,-soname,nvml-sim-test");
}
