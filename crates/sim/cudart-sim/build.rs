//! Gives the C library the name that programs were linked against.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcudart.so.12");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
