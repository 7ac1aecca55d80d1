//! The pages below docs/figures have what `tessera lab papers` prints. `TESSERA_WRITE_FIGURES=1` writes it into them.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the command for some papers.
fn printed(papers: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    let out = command.env_clear().args(["lab", "papers"]).args(papers).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Compares the part of the page between the two comments with what is printed.
fn page_has(page: &str, papers: &[&str]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/figures").join(page);
    let text = fs::read_to_string(&path).unwrap();
    let begin = format!("<!-- tessera lab papers {} -->\n\n", papers.join(" "));
    let end = "\n<!-- end of what was printed -->";
    let (before, rest) = text.split_once(&begin).unwrap();
    let (old, after) = rest.split_once(end).unwrap();
    let new = printed(papers);
    if std::env::var_os("TESSERA_WRITE_FIGURES").is_some() {
        return fs::write(&path, format!("{before}{begin}{new}{end}{after}")).unwrap();
    }
    let first = old.lines().zip(new.lines()).find(|(old, new)| old != new);
    assert!(old == new, "{page} differs from what is printed, first in\n{first:#?}");
}

#[test]
fn mapa_page_has_what_the_command_prints() {
    page_has("mapa.md", &["mapa"]);
}

#[test]
fn case_page_has_what_the_command_prints() {
    page_has("case.md", &["case", "case-mig"]);
}

#[test]
fn far_page_has_what_the_command_prints() {
    page_has("far.md", &["far"]);
}

#[test]
fn power_page_has_what_the_command_prints() {
    page_has("power.md", &["power"]);
}

#[test]
fn every_table_says_of_each_row_what_it_is() {
    let all = printed(&["case-mig", "power"]);
    let kinds = ["fitted", "predicted", "by construction", "missed", "measured", "ours alone"];
    let rows = all.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| row"));
    assert!(rows.clone().count() > 10);
    for row in rows {
        assert!(kinds.contains(&row.split(" | ").nth(1).unwrap()), "{row}");
    }
}
