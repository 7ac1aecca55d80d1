//! Tables of Slurm's commands: `node-slurm` reads them for the command line as for the plugins.

use node_slurm::slurm_table::StrangeTable;

pub(crate) use node_slurm::slurm_table::SlurmTable;

use crate::outcome::Failure;

impl From<StrangeTable> for Failure {
    fn from(strange: StrangeTable) -> Self {
        Self::new(strange.to_string())
            .hint("the output is ignored, because a column might belong to another job; is this command wrapped or aliased?")
    }
}
