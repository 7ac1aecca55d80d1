//! Linker flags of the plugin.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Slurm opens the file twice: first to look whether it is a SPANK plugin. The second time, it is loaded already.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
