//! `tessera top` in a terminal of its own, with stand-ins for Slurm's commands.
#![allow(clippy::unwrap_used, reason = "tests")]

mod slurm;

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// As long as the screen may take to show something.
const PATIENCE: Duration = Duration::from_secs(120);

const SITE: &str = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n";
const NODES: &str = "NodeName=n1 A=x\n   Extra=tessera gpu0=mig[3g.20gb@0:job11] gpu1=free\n\n\
                     NodeName=n2 A=x\n   Extra=tessera gpu0-1=free\n";

fn site(dir: &Path) {
    fs::create_dir(dir.join("bin")).unwrap();
    fs::write(dir.join("tessera.toml"), SITE).unwrap();
    fs::write(dir.join("nodes"), NODES).unwrap();
    let job = slurm::line(&[
        ("JobID", "11"),
        ("UserName", "alice"),
        ("State", "RUNNING"),
        ("NodeList", "n1"),
        ("StartTime", "1"),
        ("admin_comment", "tessera: asks v1 iso=mig:3g.20gb"),
    ]);
    fs::write(dir.join("jobs"), job + "\n").unwrap();
    for (name, text) in [
        ("squeue", "cat jobs"),
        ("sinfo", "printf 'n1 mixed gpu\\nn2 idle gpu\\n'"),
        ("scontrol", "cat nodes"),
    ] {
        slurm::program(dir, name, text);
    }
}

#[test]
fn without_a_terminal_it_says_what_else_there_is() {
    let dir = tempfile::tempdir().unwrap();
    site(dir.path());
    assert_eq!(
        slurm::tessera(dir.path(), &["top"]),
        "stderr: tessera: tessera top needs a terminal\n\
         stderr: hint: `tessera layout`, `tessera free` and squeue print the same once\nexit 1"
    );
    let said = slurm::tessera(dir.path(), &["top", "--node", "n[1"]);
    assert!(said.contains("the list of nodes \"n[1\" has a [ without a ]"), "{said}");
}

#[test]
fn a_terminal_shows_the_cluster_until_q() {
    let dir = tempfile::tempdir().unwrap();
    site(dir.path());
    // `script` gives it a terminal; its size is set inside.
    let top = format!("stty cols 80 rows 24; {} top --every 1s", env!("CARGO_BIN_EXE_tessera"));
    let mut command = Command::new("script");
    command.args(["-qec", &top, "/dev/null"]).current_dir(dir.path()).env_clear();
    let path = format!("{}:/usr/bin:/bin", dir.path().join("bin").display());
    command
        .env("PATH", path)
        .env("TERM", "xterm-256color")
        .env("TESSERA_CONF", dir.path().join("tessera.toml"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    // Another thread reads: a screen that stays silent must not keep the test for ever.
    let (send, parts) = channel();
    thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(n @ 1..) = screen.read(&mut part) {
            if send.send(part[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    let mut shown = Vec::new();
    let mut until = |text: &str| {
        let begin = Instant::now();
        while !String::from_utf8_lossy(&shown).contains(text) {
            match parts.recv_timeout(PATIENCE.saturating_sub(begin.elapsed())) {
                Ok(part) => shown.extend_from_slice(&part),
                Err(why) => {
                    let _ = child.kill();
                    panic!("no {text:?} ({why}): {}", String::from_utf8_lossy(&shown));
                }
            }
        }
    };
    until("alice");
    // A node opens, and closes again.
    keys.write_all(b"\r").unwrap();
    until("partition gpu");
    keys.write_all(b"qq").unwrap();
    // The terminal is as it was: the alternate screen is left.
    until("\u{1b}[?1049l");
    assert!(child.wait().unwrap().success());
}
