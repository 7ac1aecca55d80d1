//! The node side refuses everybody but root. A process of its own: no other test forks while the program is copied.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

#[test]
fn the_node_side_is_for_root() {
    let dir = tempfile::tempdir().unwrap();
    // Where tests run as root, the command itself must be where nobody can run it from.
    let program = dir.path().join("tessera");
    fs::copy(env!("CARGO_BIN_EXE_tessera"), &program).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(program);
    command.args(["node", "release", "--job", "12"]).current_dir(dir.path()).env_clear();
    if fs::metadata(dir.path()).unwrap().uid() == 0 {
        command.uid(65534).gid(65534);
    }
    let out = command.output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    let (first, rest) = said.split_once(" not for uid ").unwrap();
    assert_eq!(first, "tessera: tessera node release is for root on the node,");
    assert!(rest.contains("\nhint: users can run `nvidia-smi -L` in a job"), "{rest}");
    assert_eq!(out.status.code(), Some(1));
}
