//! Gives the C library the name that programs were linked against.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Not `rustc-cdylib-link-arg`: cargo hands that on to the C libraries of packages that use this one, such as cuda-sim. Programs and
    // tests of this package get the argument too; for them it means nothing.
    println!("cargo::rustc-link-arg=-Wl,-soname,libnvidia-ml.so.1");
}
