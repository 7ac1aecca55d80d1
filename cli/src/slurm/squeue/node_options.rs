//! The nodes that a job rules out.

use std::collections::HashMap;

use node_slurm::slurm_table::SlurmTable;

use super::ask::output;
use crate::outcome::Failure;

/// The options by which a job rules out nodes, as squeue shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeOptions {
    /// `--constraint`.
    pub(crate) features: String,
    /// `--exclude`, a hostlist.
    pub(crate) excluded: String,
}

impl NodeOptions {
    /// Bytes of each that squeue shows: a longer one is cut to so many.
    pub(crate) const MOST: usize = 512;
}

/// As squeue's `-o` takes the columns: in 22.05, `-O` has none for excluded nodes.
const FORMAT: &str = "%14A%512f%512x";
const TABLE: SlurmTable<'static> = SlurmTable {
    program: "squeue",
    columns: &[("JobID", 14), ("Features", NodeOptions::MOST), ("ExcNodes", NodeOptions::MOST)],
    gap: 0,
};

/// Asks about these jobs, or about all that Slurm knows.
pub(crate) fn node_options(only: Option<&[u32]>) -> Result<HashMap<u32, NodeOptions>, Failure> {
    read(&output(["-o", FORMAT], only, false)?)
}

fn read(table: &[u8]) -> Result<HashMap<u32, NodeOptions>, Failure> {
    let of_job = |cells: Vec<String>| {
        let [id, features, excluded] = <[String; 3]>::try_from(cells).ok()?;
        Some((id.parse().ok()?, NodeOptions { features, excluded }))
    };
    Ok(TABLE.read(table)?.into_iter().filter_map(of_job).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_squeue_is_asked_for() {
        let widths: Vec<String> = TABLE.columns.iter().map(|(_, width)| format!("%{width}")).collect();
        assert!(widths.iter().all(|width| FORMAT.contains(width)));
        let line =
            format!("{:<14}{:<512}{:<512}\n{:<14}{:<512}{:<512}\n", 7, "a|b", "n[1-2]", 8, "(null)", "");
        let found = read(line.as_bytes()).unwrap();
        assert_eq!(found[&7], NodeOptions { features: "a|b".to_owned(), excluded: "n[1-2]".to_owned() });
        assert_eq!(found[&8], NodeOptions::default());
    }
}
