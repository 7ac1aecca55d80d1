//! `tessera top` in a terminal of its own, with stand-ins for Slurm's commands.
#![allow(clippy::unwrap_used, reason = "tests")]

mod slurm;

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
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

/// `tessera top` with a terminal, which `script` gives it.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    parts: Receiver<Vec<u8>>,
    shown: Vec<u8>,
}

impl Terminal {
    fn start(dir: &Path) -> Self {
        // The size is set inside.
        let top = format!(
            "stty cols 80 rows 24; echo $$ > pid; exec {} top --every 1s",
            env!("CARGO_BIN_EXE_tessera")
        );
        let mut command = Command::new("script");
        command.args(["-qec", &top, "/dev/null"]).current_dir(dir).env_clear();
        command
            .env("PATH", format!("{}:/usr/bin:/bin", dir.join("bin").display()))
            .env("TERM", "xterm-256color")
            .env("TESSERA_CONF", dir.join("tessera.toml"));
        let mut script = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (keys, mut screen) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
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
        Self { script, keys, parts, shown: Vec::new() }
    }

    fn until(&mut self, text: &str) {
        let begin = Instant::now();
        while !String::from_utf8_lossy(&self.shown).contains(text) {
            match self.parts.recv_timeout(PATIENCE.saturating_sub(begin.elapsed())) {
                Ok(part) => self.shown.extend_from_slice(&part),
                Err(why) => {
                    let _ = self.script.kill();
                    panic!("no {text:?} ({why}): {}", String::from_utf8_lossy(&self.shown));
                }
            }
        }
    }
}

#[test]
fn a_terminal_shows_the_cluster_until_q() {
    let dir = tempfile::tempdir().unwrap();
    site(dir.path());
    let mut terminal = Terminal::start(dir.path());
    terminal.until("alice");
    // A node opens, and closes again.
    terminal.keys.write_all(b"\r").unwrap();
    terminal.until("partition gpu");
    terminal.keys.write_all(b"qq").unwrap();
    // The terminal is as it was: the alternate screen is left.
    terminal.until("\u{1b}[?1049l");
    assert!(terminal.script.wait().unwrap().success());
}

#[test]
fn it_ends_with_its_terminal() {
    let dir = tempfile::tempdir().unwrap();
    site(dir.path());
    let mut terminal = Terminal::start(dir.path());
    terminal.until("alice");
    let top: u32 = fs::read_to_string(dir.path().join("pid")).unwrap().trim().parse().unwrap();
    terminal.script.kill().unwrap();
    terminal.script.wait().unwrap();
    let begin = Instant::now();
    // Whoever adopts it may be slow to wait for it.
    let lives = || {
        fs::read_to_string(format!("/proc/{top}/stat"))
            .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'))
    };
    while lives() {
        if begin.elapsed() > PATIENCE {
            let _ = Command::new("kill").args(["-9", &top.to_string()]).status();
            panic!("tessera top goes on without a terminal");
        }
        thread::sleep(Duration::from_millis(50));
    }
}
