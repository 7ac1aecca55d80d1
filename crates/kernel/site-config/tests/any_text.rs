//! slurmctld parses whatever stands in the file, under its own locks at a reconfigure: no text may make that panic, and
//! every error must say where.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io;

use proptest::prelude::*;

const GOOD: &str = r#"
[defaults]
isolation = "mig:1g.5gb"
gpu_mem = "5G"
auto = ["mig", "mps"]
[node]
gpu_reset_command = ["x", "%i"]
gpu_clients_command = ["/x", "%a"]
[[nodes]]
names = "n[1-2],m[01-03]x"
gpu = "a100-40gb"
count = 2
matrix = [[0, 25.0], [25, 0]]
[[nodes]]
names = "o1"
gpus = ["a30-24gb", "a100-40gb"]
discovered = "file"
[[limits]]
account = "a"
max_mem = "1Gi"
"#;

/// Positions count characters; a line's end counts as one more.
fn is_inside(text: &str, error: &site_config::ConfigError) -> bool {
    let line = text.split('\n').nth(error.line - 1);
    line.is_some_and(|l| error.column <= l.chars().count() + 1)
}

fn check(text: &str, other: &str) {
    let (config, errors) = site_config::parse("f", text, &|_| Ok(other.to_owned()));
    assert_eq!(config.is_some(), errors.is_empty());
    for error in &errors {
        let inside = is_inside(text, error) || (error.file == "file" && is_inside(other, error));
        assert!(inside, "{error} in {text:?}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
        assert!(!site_problems::shown(error).contains('\u{1b}'), "{error}");
        assert_eq!(site_problems::shown(error).lines().count(), 3, "{}", site_problems::shown(error));
    }
}

proptest! {
    #[test]
    fn no_text_panics_the_reader(text in any::<String>()) {
        check(&text, &text);
    }

    #[test]
    fn a_good_file_with_pieces_replaced(
        cuts in prop::collection::vec((0..GOOD.len(), 0..12_usize, "[\\[\\]\"'=,#.\\-%n0-9a-zé\\n\\\\ ]{0,6}"), 1..5)
    ) {
        let mut text = GOOD.to_owned();
        for (at, len, new) in cuts {
            let at = at.min(text.len());
            let end = (at + len).min(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(end) {
                text.replace_range(at..end, &new);
            }
        }
        check(&text, "[[nodes]]\nmatrix = [[0, 1], [1, 0]]");
        check(GOOD, &text);
    }

    #[test]
    fn no_hostlist_panics_the_reader(text in "[n1-3,\\[\\]9é.]{0,20}") {
        if let Ok(names) = site_config::hostlist::expand(&text) {
            prop_assert!(!names.is_empty() && names.iter().all(|n| !n.is_empty()));
        }
    }
}

#[test]
fn files_that_are_nested_too_deeply_or_have_control_characters() {
    check(&format!("a = {}", "[".repeat(100_000)), "");
    check(&format!("a = {}", "{b=".repeat(100_000)), "");
    check("[[nodes]]\nmatrix = [[0", &"[[nodes]]\n".repeat(1000));
    check("\"a\\nb\\u001b\" = 1\n[[nodes]]\nnames = \"\\n\"\ndiscovered = \"\\n\"\n", "");
    check("[[nodes]]\nnames = \"\u{1b}[31m\"\n", "");
    let read = site_config::parse("f", GOOD, &|_| Err(io::ErrorKind::NotFound.into()));
    assert_eq!(read.1.len(), 1);
}
