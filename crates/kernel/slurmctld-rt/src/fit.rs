//! Tables held against this slurmctld.

use std::ffi::c_void;
use std::path::Path;

use plugin_rt::{own_file, symbol, symbol_size};
use slurm_tables::NoTable;
use slurm_tables::table::BadTable;
use slurm_tables::{Misfit, Record, peek, peek_text};

/// The tables cannot be used in this slurmctld.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// There is none.
    #[error("its structures are not known")]
    NoTable(#[from] NoTable),
    /// Lacks something.
    #[error("its structures are not known")]
    Lacks(#[from] BadTable),
    /// A record is not as the table says.
    #[error("its structures are not those of this release: {0}")]
    Other(#[from] Misfit),
    /// slurmctld has another thing by that name.
    #[error("its structures are not those of this release: it has another {0} of that name")]
    Named(&'static str),
}

/// Compares slurm.conf as slurmctld has read it: all that is there when a plugin is loaded. `known`: `slurm_conf`, `plugin_dir`: what is
/// read of it as `PluginDir`, which names the directory of this plugin.
///
/// # Errors
///
/// It is of another size, or has something else where the table says.
pub fn conf_fits(known: Option<&Record>, plugin_dir: impl FnOnce() -> Option<String>) -> Result<(), Unfit> {
    let (Some(conf), Some(known)) = (symbol(c"slurm_conf"), known) else { return Ok(()) };
    if let Some(has) = symbol_size(conf).filter(|has| *has != known.size as u64) {
        return Err(Misfit::Size { structure: known.structure, has, expected: known.size as u64 }.into());
    }
    known.check_fields(conf.as_ptr().addr())?;
    let own = own_file();
    let dir = own.as_deref().and_then(Path::parent);
    let names_us = |dirs: String| dirs.split(':').any(|named| Some(Path::new(named)) == dir);
    if plugin_dir().is_some_and(names_us) { Ok(()) } else { Err(Unfit::Named("PluginDir")) }
}

/// The texts in slurm.conf as this process has read it, by looking at every word of `slurm_conf`: this needs no table. A text is
/// read when it is asked for: each of Slurm's commands looks for one.
pub fn conf_texts() -> impl Iterator<Item = String> {
    /// Most bytes that are looked at: more than any version has.
    const MOST: usize = 4096;
    let conf = symbol(c"slurm_conf");
    let size = conf.and_then(symbol_size).and_then(|size| usize::try_from(size).ok()).unwrap_or(MOST);
    let mut copy = vec![0; size.min(MOST)];
    if !conf.is_some_and(|conf| peek(conf.as_ptr().addr(), &mut copy)) {
        copy.clear();
    }
    let words: Vec<usize> = copy.as_chunks().0.iter().map(|word| usize::from_ne_bytes(*word)).collect();
    // Most words are numbers. Nothing lies in the first page.
    let pointers = words.into_iter().filter(|word| *word >= 4096);
    pointers.filter_map(|pointer| String::from_utf8(peek_text(pointer)?).ok())
}

/// slurmctld's own directory, by its looks: the one in slurm.conf with the file that slurmctld writes there first.
#[must_use]
pub fn state_dir() -> Option<String> {
    conf_texts().find(|text| text.starts_with('/') && Path::new(text).join("clustername").is_file())
}

/// Compares a record; null fits.
///
/// # Errors
///
/// It is of another size, or has something else where the table says.
pub fn check(known: Option<&Record>, pointer: *const c_void) -> Result<(), Misfit> {
    match known {
        Some(known) if !pointer.is_null() => known.check(pointer.addr()),
        _ => Ok(()),
    }
}
