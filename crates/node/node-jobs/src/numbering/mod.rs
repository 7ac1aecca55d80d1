//! From Slurm's numbers of GPUs to NVML's: the only way from slurmctld's grant to anything that is done on the node.

mod grant;
mod table;

pub use grant::{GrantedGpu, NvmlGrant};
pub use table::{DescribedNode, Numbering, NumberingError, Unnumbered, minors_by_bus};
