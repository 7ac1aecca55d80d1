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
    assert_eq!(wrong[0].render(), block(&page, "An error looks like this:").trim_end());
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

#[test]
fn a_partition_has_its_own_alpha_and_objective() {
    let text = "[power]\nobjective = \"throughput\"\nalpha = 0.3\n\
                [[partitions]]\nname = \"strict\"\nalpha = 0.5\n\
                [[partitions]]\nname = \"off\"\nobjective = \"off\"\n\
                [[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 1\n";
    let (config, errors) = site_config::parse("t", text, &|_| Err(io::ErrorKind::NotFound.into()));
    assert_eq!(errors, []);
    let config = config.unwrap();
    let of = |partition| {
        let policy = site_limits::power_policy(&config, partition);
        (policy.objective, policy.alpha, policy.guard)
    };
    use site_config::Objective::{Off, Throughput};
    assert_eq!(of(Some("strict")), (Throughput, 0.5, true));
    assert_eq!(of(Some("off")), (Off, 0.3, true));
    assert_eq!((of(Some("other")), of(None)), ((Throughput, 0.3, true), (Throughput, 0.3, true)));
}
