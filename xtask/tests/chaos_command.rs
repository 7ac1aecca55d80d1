//! Tests the answers of `cargo xtask chaos` to a person who asks for help or types something wrong.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::{Command, Output};

fn chaos(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).arg("chaos").args(args).output().unwrap()
}

#[test]
fn help_names_every_option() {
    let done = chaos(&["--help"]);
    assert_eq!(done.status.code(), Some(0));
    let text = String::from_utf8(done.stdout).unwrap();
    for option in
        ["--seed", "--minutes", "--jobs", "--slurm", "--without", "--gpus-per-job", "--plan", "--dir"]
    {
        assert!(text.contains(option), "{option}: {text}");
    }
}

#[test]
fn bad_input_is_refused_before_anything_starts() {
    let cases: [(&[&str], &str); 8] = [
        (&["--seed", "x"], "'x' for '--seed"),
        (&["--minutes", "-1"], "unexpected argument '-1'"),
        (&["--minutes", "18446744073709551615"], "'18446744073709551615' for '--minutes"),
        (&["--jobs", "many"], "'many' for '--jobs"),
        (&["--slurm", "19.05"], "Slurm 19.05 is not one that Tessera knows"),
        (&["--without", "brokenfile"], "a similar value exists: 'broken-file'"),
        (&["--gpus-per-job", "0"], "'0' for '--gpus-per-job"),
        (&["--hurt"], "unexpected argument '--hurt'"),
    ];
    for (args, word) in cases {
        let done = chaos(args);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!((done.status.code(), said.contains(word)), (Some(2), true), "{args:?}: {said}");
        assert!(done.stdout.is_empty());
    }
}

#[test]
fn a_plan_is_the_same_every_time() {
    let plan = |seed| chaos(&["--plan", "--seed", seed, "--jobs", "50"]);
    let first = plan("5");
    assert_eq!(first.status.code(), Some(0));
    assert_eq!(first.stdout, plan("5").stdout);
    assert_ne!(first.stdout, plan("6").stdout);
    assert_eq!(String::from_utf8(first.stdout).unwrap().matches("submit ").count(), 50);
}
