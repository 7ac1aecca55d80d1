//! While the site's `tessera.toml` is bad, commands go by its last good version, as slurmctld does, and say so once.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const GOOD: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n";

fn tessera(dir: &Path, words: &str) -> Output {
    let mut run = Command::new(env!("CARGO_BIN_EXE_tessera"));
    run.args(words.split(' ')).current_dir(dir).env_clear();
    run.env("PATH", "/usr/bin:/bin").env("SLURM_CONF", dir.join("slurm.conf")).output().unwrap()
}

#[test]
fn commands_go_by_the_last_good_version() {
    let dir = tempfile::tempdir().unwrap();
    let (here, state) = (dir.path(), dir.path().join("state"));
    fs::create_dir(&state).unwrap();
    fs::write(here.join("slurm.conf"), format!("StateSaveLocation={}\n", state.display())).unwrap();
    fs::write(here.join("tessera.toml"), GOOD.replace("a100-40gb", "a100-41gb")).unwrap();
    fs::write(here.join("layout"), "n1 tessera gpu0=whole[job7] gpu1=free\n").unwrap();
    let layout = "layout --from layout";

    // slurmctld has kept none.
    let out = tessera(here, layout);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(
        !out.status.success()
            && said.contains("a100-41gb")
            && said.contains("hint: if it had a good version before"),
        "{said}"
    );

    let kept = format!("tessera-last-good 1\nfile {} tessera.toml\n{GOOD}\n", GOOD.len());
    let copy = state.join("tessera.toml.last-good");
    fs::write(&copy, kept).unwrap();
    for words in [layout, "explain --gpu-isolation=whole", "free --from layout", "topology show n1"] {
        let out = tessera(here, words);
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.success(), "{words}: {said}");
        assert_eq!(said.matches("tessera.toml has 1 error").count(), 1, "{words}: {said}");
        assert_eq!(said.matches("the last good version").count(), 1, "{words}: {said}");
    }
    assert!(String::from_utf8(tessera(here, layout).stdout).unwrap().contains("n1: 2 x a100-40gb"));

    // Another user's directory is believed only if slurm.conf says that it is slurmctld's.
    if std::os::unix::fs::chown(&state, Some(65_534), None).is_ok() {
        assert!(!tessera(here, layout).status.success(), "anybody may have made it");
        let conf = fs::read_to_string(here.join("slurm.conf")).unwrap();
        fs::write(here.join("slurm.conf"), format!("{conf}SlurmUser=65534\n")).unwrap();
        std::os::unix::fs::chown(&copy, Some(65_534), None).unwrap();
        assert!(tessera(here, layout).status.success());
    }

    // A file that somebody names is that file, and `check` judges the file itself.
    fs::copy(here.join("tessera.toml"), here.join("other.toml")).unwrap();
    assert!(!tessera(here, "--config other.toml layout --from layout").status.success());
    assert!(!tessera(here, "check").status.success());
    fs::write(here.join("tessera.toml"), GOOD).unwrap();
    assert!(tessera(here, layout).stderr.is_empty());
}
