//! The layouts and symbols of `layout` for one more Slurm, without the plugin's code: the symbols are those of the
//! library that lies beside this program. `cargo xtask test` builds both for each Slurm in a chroot.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../src/tests/layout.rs"]
mod layout;

include!(concat!(env!("OUT_DIR"), "/sys.rs"));

/// As in the plugin.
mod version {
    #[cfg(not(slurm_since = "23.02"))]
    pub(super) use super::sys::job_details as JobDetails;
    #[cfg(slurm_since = "23.02")]
    pub(super) use super::sys::job_details_t as JobDetails;
}

/// The functions that the library has.
mod entry {
    use object::{Object as _, ObjectSymbol as _, SymbolKind};

    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        let program = std::env::current_exe().unwrap();
        let library = program.ancestors().nth(2).unwrap().join("libselect_cons_tres.so");
        let bytes = std::fs::read(&library).unwrap().leak();
        let file = object::File::parse(&*bytes).unwrap();
        let symbols = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
        let functions = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text);
        let names: Vec<String> = functions.map(|symbol| symbol.name().unwrap().to_owned()).collect();
        names.into_iter().map(|name| &*name.leak())
    }
}
