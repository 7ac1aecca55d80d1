//! The columns that sacct is asked for of whole months of jobs. Stand-ins and the benchmark's made-up months print the same.

/// Columns and their widths, in bytes. What is cut from a comment is the end of its reason or the request behind it.
pub(crate) const COLUMNS: [(&str, usize); 12] = [
    ("JobIDRaw", 24),
    ("User", 32),
    ("State", 12),
    ("Submit", 11),
    ("Eligible", 11),
    ("Start", 11),
    ("ElapsedRaw", 10),
    ("TimelimitRaw", 16),
    ("NNodes", 7),
    ("ReqTRES", 160),
    ("TRESUsageInTot", 256),
    ("AdminComment", 512),
];

/// The line that sacct prints of a job or step with these cells.
#[cfg(test)]
pub(crate) fn line(cells: [&str; COLUMNS.len()]) -> String {
    let padded = cells.iter().zip(COLUMNS).map(|(cell, (_, width))| format!("{cell:>width$} "));
    padded.chain(["\n".to_owned()]).collect()
}
