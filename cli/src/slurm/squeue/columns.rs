//! The columns that squeue is asked for. Its stand-in in `tests/slurm` prints the same.

/// Columns and their widths, in bytes; a longer value is cut.
pub(crate) const COLUMNS: [(&str, usize); 27] = [
    ("JobID", 14),
    ("ArrayJobID", 14),
    ("ArrayTaskID", 80),
    ("HetJobID", 14),
    ("UserName", 64),
    ("Account", 64),
    ("Partition", 128),
    ("QOS", 64),
    ("PriorityLong", 22),
    ("Nice", 14),
    ("State", 20),
    ("Reason", 40),
    ("Dependency", 1024),
    ("NumNodes", 10),
    ("NodeList", 256),
    ("ReqNodes", 256),
    ("Reservation", 512),
    ("SubmitTime", 22),
    ("StartTime", 22),
    ("EndTime", 22),
    ("TimeLimit", 22),
    ("tres-per-job", 80),
    ("tres-per-node", 80),
    ("tres-per-socket", 80),
    ("tres-per-task", 80),
    ("OverSubscribe", 10),
    ("admin_comment", 2048),
];

/// The line that squeue prints of a job with these values in these columns.
#[cfg(test)]
pub(crate) fn line(values: &[(&str, &str)]) -> String {
    let known = |name: &str| COLUMNS.iter().any(|(column, _)| *column == name);
    assert!(values.iter().all(|(name, _)| known(name)), "{values:?}");
    let value = |column: &str| values.iter().find(|(name, _)| *name == column).map_or("", |(_, value)| value);
    COLUMNS.iter().map(|(column, width)| format!("{:<width$}", value(column))).collect()
}
