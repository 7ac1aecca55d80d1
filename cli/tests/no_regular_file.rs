//! A FIFO, a device or a directory where a command expects a file is refused at once, whatever the command; and answers that nobody can have.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Every way to name a file on a command line; `@` is the file.
const COMMANDS: &[&str] = &[
    "score --topology @ --gpus 2",
    "score --topology dgx-v --gpus 2 --pattern file:@",
    "score --topology dgx-v --gpus 2 --model @",
    "topology svg @ --gpus 2",
    "lint --topology @",
    "explain --gpus 2 --gpu-pattern=file:@",
    "explain --gpus 2 --config @",
    "check @",
    "plan show @ --gpu a100-40gb",
    "plan compare @ --gpu a100-40gb",
    "plan show tasks.csv --gpu a100-40gb --times @",
    "simulate mapa --jobs @ --topology dgx-v",
    "simulate case --node a30-24gb,4/1g.6gb*4 --jobs @",
    "simulate case --node a30-24gb,4/1g.6gb*4 --replay @",
    "simulate case --check @",
    "free --from @ --config site.toml",
    "power import app @",
    "power divide --model @ --counters runs.csv --budget 100 --groups runs.csv",
    "fit bandwidth @ --topology dgx-v",
    "power fit --gpu a100-40gb @ runs.csv",
    "power choose --model @ --counters runs.csv --apps a,b",
    "layout --from @ --config site.toml",
    "times --from @",
    "traffic --from @",
];

fn refused(dir: &Path, command: &str, file: &str) -> (bool, String) {
    let words = command.replace('@', file);
    // A command that reads on is ended, and fails the test by its status.
    let mut run = Command::new("timeout");
    run.args(["60", env!("CARGO_BIN_EXE_tessera")]).args(words.split(' '));
    let out =
        run.current_dir(dir).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    (matches!(out.status.code(), Some(1 | 2)), format!("{words}: {:?}: {said}", out.status))
}

#[test]
fn only_regular_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("fifo")).status().unwrap().success());
    fs::create_dir(dir.path().join("directory")).unwrap();
    fs::write(dir.path().join("tasks.csv"), "name,1g,7g\na,60,10\n").unwrap();
    fs::write(dir.path().join("runs.csv"), "").unwrap();
    let site = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n";
    fs::write(dir.path().join("site.toml"), site).unwrap();
    for file in ["fifo", "directory", "/dev/zero"] {
        for command in COMMANDS {
            let (status, said) = refused(dir.path(), command, file);
            assert!(status && said.contains("not a regular file"), "{said}");
        }
    }
}

/// Every way to name a file that a command writes and that needs no cluster; `@` is the file.
const WRITERS: &[&str] = &[
    "simulate mapa --jobs mapa.csv --topology dgx-v --csv @",
    "simulate case --figure mig:table2 --svg @",
    "plan show tasks.csv --gpu a100-40gb --svg @",
    "layout --from layout --config site.toml --svg @",
    "power simulate --figure 9 --csv @",
    "power simulate --figure 9 --svg @",
];

/// Root must not wait for a reader of a planted FIFO, and must not write through a planted link.
#[test]
fn nothing_is_written_to_what_another_user_planted() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let nobody = Some(65_534);
    assert!(Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
    std::os::unix::fs::chown(path("fifo"), nobody, nobody).unwrap();
    fs::write(path("roots"), "roots own\n").unwrap();
    std::os::unix::fs::symlink("roots", path("link")).unwrap();
    std::os::unix::fs::lchown(path("link"), nobody, nobody).unwrap();
    fs::write(path("tasks.csv"), "name,1g,7g\na,60,10\n").unwrap();
    fs::write(path("mapa.csv"), "2,ring,0,20,1,resnet\n").unwrap();
    fs::write(path("layout"), "n1 tessera gpu0=free gpu1=free\n").unwrap();
    fs::write(path("site.toml"), "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n").unwrap();
    for command in WRITERS {
        for (file, why) in [("fifo", "a FIFO of another user"), ("link", "a link of another user")] {
            let (status, said) = refused(dir.path(), command, file);
            assert!(status && said.contains(why), "{said}");
        }
    }
    assert_eq!(fs::read_to_string(path("roots")).unwrap(), "roots own\n");
}

#[test]
fn standard_input_may_be_a_pipe() {
    let mut cat = Command::new("sh");
    cat.args([
        "-c",
        "printf 'name,1g,7g\\na,60,10\\n' | $0 plan show - --gpu a100-40gb",
        env!("CARGO_BIN_EXE_tessera"),
    ]);
    let out = cat.output().unwrap();
    assert!(out.status.success(), "{out:?}");
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure_and_a_reader_that_has_seen_enough_is_none() {
    let profiles = |out: Stdio| {
        let mut run = Command::new(env!("CARGO_BIN_EXE_tessera"));
        run.arg("profiles").stdout(out).stderr(Stdio::piped()).output().unwrap()
    };
    let full = profiles(fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into());
    assert_eq!(full.status.code(), Some(1));
    let said = String::from_utf8_lossy(&full.stderr);
    assert!(said.starts_with("tessera: cannot write the answer: No space left"), "{said}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let closed = profiles(writer.into());
    assert_eq!((closed.status.code(), closed.stderr), (Some(0), Vec::new()));
}
