//! Answers of `cargo xtask bench scale` to a person who types something wrong.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

#[test]
fn bad_input_is_refused_before_anything_starts() {
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--nodes", "30"], 2, "a multiple of 20, at most 8000, is wanted"),
        (&["--nodes", "many"], 2, "'many' for '--nodes"),
        (&["--pending", "0"], 2, "5 to 100000 are wanted"),
        (&["--slurm", "19.05"], 2, "Slurm 19.05 is not one that Tessera knows"),
        (&["--slurm", "24.11", "--slurm-prefix", "/opt/slurm"], 2, "cannot be used with"),
        (&["decide"], 1, "bench: name `scale` alone"),
    ];
    for (args, code, word) in cases {
        let done =
            Command::new(env!("CARGO_BIN_EXE_xtask")).args(["bench", "scale"]).args(args).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!((done.status.code(), said.contains(word)), (Some(code), true), "{args:?}: {said}");
        assert!(done.stdout.is_empty());
    }
}
