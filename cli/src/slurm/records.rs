//! Tables of Slurm's commands: `plugin-rt` reads them for the command line as for the plugins.

use plugin_rt::slurm_table::StrangeTable;

pub(crate) use plugin_rt::slurm_table::SlurmTable;

use crate::outcome::Failure;

impl From<StrangeTable> for Failure {
    fn from(strange: StrangeTable) -> Self {
        Self::new(strange.to_string())
            .hint("tessera reads nothing from such a table: it could take one job's text for another job")
    }
}
