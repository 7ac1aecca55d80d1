//! `tessera traffic` as a person reads it. sacct is a stand-in.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, unused_imports, reason = "each test file uses its own part of this")]
mod slurm;

use std::fs;

use insta::assert_snapshot;

/// The widths that sacct is asked for.
const WIDTHS: [usize; 9] = [24, 12, 64, 20, 12, 256, 512, 512, 66];

/// A job of two GPUs for 1000 s, and the step that counted what they sent.
fn job(id: u32, name: &str, sent: &str) -> String {
    let (job, step) = (id.to_string(), format!("{id}.extern"));
    let lines = [
        [&job, "7", "bob", "COMPLETED", "1000", "gres/gpu=2", "", "", name],
        [&step, "", "", "COMPLETED", "1000", "", sent, "", "extern"],
    ];
    let line = |cells: [&str; 9]| {
        let cells = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:>width$} "));
        cells.collect::<String>() + "\n"
    };
    lines.map(line).concat()
}

fn traffic(table: &str, then: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    fs::write(dir.path().join("records"), table).unwrap();
    slurm::program(dir.path(), "sacct", &format!("echo \"$*\" > asked\ncat records\n{then}"));
    let said = slurm::tessera(dir.path(), &["traffic", "--since", "7d"]);
    let asked = fs::read_to_string(dir.path().join("asked")).unwrap();
    assert!(asked.starts_with("-a -n -s CD -S now-604800seconds -E now -o JobIDRaw%24,UID%12,"), "{asked}");
    said
}

#[test]
fn what_was_not_counted_is_not_taken_for_nothing() {
    let one = |name, sent: &'static str| (1..=3).map(move |id| job(id, name, sent));
    let [full, in_part] = [("full.sh", "ic/nvlink=0,ic/pcie=1G"), ("part.sh", "ic/pcie=1G")]
        .map(|(name, sent)| one(name, sent).collect::<String>());
    assert_snapshot!(traffic(&full, ""), @r"
    user  jobs               runs  GB/s per GPU  most  bandwidth
    bob   full.sh on 2 GPUs     3          0.00  0.00  insensitive
    exit 0
    ");
    assert_snapshot!(traffic(&in_part, ""), @r"
    user  jobs               runs  GB/s per GPU  most  bandwidth
    bob   part.sh on 2 GPUs     3          0.00  0.00  not known
    Of some runs only NVLink or only PCIe was counted: such runs never count as insensitive. AccountingStorageTRES must have ic/nvlink and ic/pcie.
    exit 0
    ");
    assert_snapshot!(traffic("", ""), @r#"
    no completed job with several GPUs has traffic in sacct; docs/energy-and-usage.md, "Traffic between GPUs", says what records it
    exit 0
    "#);
}

#[test]
fn a_failure_of_sacct_is_not_a_short_table() {
    let table = job(1, "train.sh", "ic/nvlink=0,ic/pcie=1G");
    // More than a pipe takes.
    let noise = "yes 'sacct: warning' | head -c 200000 >&2";
    assert!(traffic(&table, noise).ends_with("exit 0"));
    assert_snapshot!(traffic(&table[..900], "echo 'sacct: error: slurmdbd is away' >&2; exit 1"), @r"
    stderr: tessera: sacct: slurmdbd is away
    stderr: hint: this needs Slurm's accounting: AccountingStorageType=accounting_storage/slurmdbd
    exit 1
    ");
    assert_snapshot!(traffic(&(table + "forged\n"), ""), @r"
    stderr: tessera: sacct's table is not understood: a record has another length
    stderr: hint: the output is ignored, because a column might belong to another job; is this command wrapped or aliased?
    exit 1
    ");
}
