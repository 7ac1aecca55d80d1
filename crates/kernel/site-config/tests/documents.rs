//! The documents say what the parser does.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::{fs, io};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path)).unwrap()
}

fn errors(text: &str) -> Vec<site_config::ConfigError> {
    site_config::parse("tessera.toml", text, &|_| Err(io::ErrorKind::NotFound.into())).1
}

/// The block after a line of the man page.
fn block(page: &str, after: &str) -> String {
    let behind = page.lines().skip_while(|l| *l != after).skip_while(|l| !l.starts_with("```")).skip(1);
    behind.take_while(|l| *l != "```").map(|l| l.to_owned() + "\n").collect()
}

#[test]
fn the_man_pages_example_is_good_and_its_error_is_real() {
    let page = read("docs/man/tessera.toml.5.md");
    let example = block(&page, "## EXAMPLE");
    assert!(example.contains("[[nodes]]"));
    assert_eq!(errors(&example), []);
    let wrong = errors(&example.replace("a100-40gb", "a100-40"));
    assert_eq!(site_problems::shown(&wrong[0]), block(&page, "An error looks like this:").trim_end());
}

#[test]
fn the_man_page_has_every_key() {
    let page = read("docs/man/tessera.toml.5.md");
    let mut keys = 0;
    for section in [
        "[defaults]",
        "[bandwidth]",
        "[mps]",
        "[tasks]",
        "[node]",
        "[[partitions]]",
        "[[limits]]",
        "[[nodes]]",
        "[[power_budgets]]",
        "[power]",
    ] {
        // An unknown key that resembles none is answered with all that are known.
        let found = errors(&format!("{section}\nzzzzzzzzzzzzzzzzzzzzzzzz = 1\n"));
        let hint = found.iter().find(|e| e.what.contains("unknown key")).unwrap().hint.clone().unwrap();
        for key in hint.trim_start_matches("use one of ").split(", ") {
            assert!(page.contains(&format!("**{key}**")), "{section} {key}");
            keys += 1;
        }
    }
    assert!(keys > 25, "{keys}");
}

#[test]
fn the_example_file_is_good() {
    assert_eq!(errors(&read("contrib/example/tessera.toml")), []);
}
