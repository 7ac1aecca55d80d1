//! Creates the two users who submit jobs in tests and in the demo.

use std::fs;
use std::path::Path;
use std::process::Command;

use lab::paths::TEST_USERS;

use crate::command::{TaskError, at, output};

/// Creates the test users on the machine, or in `root` with the ids they have on the machine.
pub(super) fn create(root: Option<&Path>) -> Result<(), TaskError> {
    for user in TEST_USERS {
        let base = root.unwrap_or(Path::new("/"));
        if ids(base, user)?.is_some() {
            continue;
        }
        eprintln!(
            "setup: create user {user}{}",
            root.map(|r| format!(" in {}", r.display())).unwrap_or_default()
        );
        let mut add = Command::new("useradd");
        add.args(["--no-create-home", "--home-dir", "/nonexistent", "--shell", "/bin/sh"]);
        add.args(["--comment", "Tessera test user"]);
        if let Some(root) = root {
            let (uid, gid) = ids(Path::new("/"), user)?
                .ok_or_else(|| TaskError::Other(format!("user {user} is not on the machine")))?;
            output(Command::new("groupadd").arg("--root").arg(root).args(["--gid", &gid, user]))?;
            add.arg("--root").arg(root).args(["--uid", &uid, "--gid", &gid]);
        } else {
            add.arg("--user-group");
        }
        output(add.arg(user))?;
    }
    Ok(())
}

/// User and group id of `user` in the passwd file under `root`.
fn ids(root: &Path, user: &str) -> Result<Option<(String, String)>, TaskError> {
    let passwd = root.join("etc/passwd");
    let text = at(&passwd, fs::read_to_string(&passwd))?;
    let entry = text.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == user);
    Ok(entry.filter(|fields| fields.len() > 3).map(|fields| (fields[2].to_owned(), fields[3].to_owned())))
}
