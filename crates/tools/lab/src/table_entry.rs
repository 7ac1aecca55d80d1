//! An entry of the table of Slurm's structures as text. What slurmctld and root load only reads such entries.

use slurm_tables::table::Cell;

/// Writes an entry as [`slurm_tables::table`] reads it.
#[must_use]
pub fn entry(cell: Cell) -> String {
    match cell {
        Cell::Absent => "-".to_owned(),
        Cell::Number(number) => number.to_string(),
        Cell::Field { position, bytes } => format!("{position}:{bytes}"),
    }
}
