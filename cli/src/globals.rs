//! The global options: apart from its own arguments, all that a command sees of the command line.

use std::path::PathBuf;

use clap::Args;

// A doc comment here would take the place of the command's own.
#[derive(Args)]
pub(crate) struct Globals {
    /// Read this tessera.toml
    ///
    /// By default the file that TESSERA_CONF names, else tessera.toml next to the file that SLURM_CONF names, else
    /// /etc/slurm/tessera.toml.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}
