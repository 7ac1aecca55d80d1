//! The script of the health check.

use super::*;

/// slurmd gives the script no SLURM_CONF and no PATH.
#[test]
fn the_health_check_finds_a_slurm_that_is_elsewhere() {
    let script = |etc: &str, commands: Option<&str>| {
        let mut files = site(PLAIN);
        files.slurm[0].path = Path::new(etc).join("slurm.conf");
        files.tessera.path = Path::new(etc).join("tessera.toml");
        let slurm_commands = commands.map(PathBuf::from);
        health_script(&files, &Installed { slurm_commands, ..installed("/usr", "24.11.5") })
    };
    let usual = include_str!("../../../../../../contrib/example/tessera-health");
    assert_eq!(script("/etc/slurm", None), usual.replace("/usr/local/bin/", "/usr/bin/"));
    let elsewhere = script("/opt/it's slurm/etc", Some("/opt/slurm/bin"));
    let lines = elsewhere.lines().filter(|line| !line.starts_with('#')).take(5).collect::<Vec<_>>();
    insta::assert_snapshot!(lines.join("\n"), @r"
    exec >/dev/null 2>&1 </dev/null
    if [ -e '/opt/it'\''s slurm/etc/slurm.conf' ]; then export SLURM_CONF='/opt/it'\''s slurm/etc/slurm.conf'; fi
    export PATH=/opt/slurm/bin:/usr/sbin:/usr/bin:/sbin:/bin
    setsid /bin/sh <<'WORK'
    /usr/bin/tessera --config '/opt/it'\''s slurm/etc/tessera.toml' node reconcile --if-dead &
    ");
    // The shell reads what was meant.
    let dir = tempfile::tempdir().unwrap();
    let etc = dir.path().join("it's etc");
    std::fs::create_dir(&etc).unwrap();
    std::fs::write(etc.join("slurm.conf"), "").unwrap();
    let text = script(etc.to_str().unwrap(), Some("/opt/slurm/bin"));
    let sets = text.lines().filter(|line| line.contains("export ")).collect::<Vec<_>>().join("\n");
    let mut shell = std::process::Command::new("/bin/sh");
    let done = shell.arg("-c").arg(format!("{sets}\necho $SLURM_CONF:$PATH")).env_clear().output().unwrap();
    let want = format!("{}:/opt/slurm/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", etc.join("slurm.conf").display());
    assert_eq!(String::from_utf8(done.stdout).unwrap(), want);
}

/// slurmd kills the script's process group at once when the script has ended; on a busy node none of what the script started may have run
/// by then. `setsid` is slow here.
#[test]
fn the_health_checks_work_outlives_the_script() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path
    };
    write("setsid", "#!/bin/sh\nsleep 0.5\nexec /usr/bin/setsid \"$@\"\n");
    let did = dir.path().join("did");
    let program = write("tessera", &format!("#!/bin/sh\necho \"$4\" >> {}\n", did.display()));
    let script = health_script(&site(PLAIN), &Installed { program, ..installed("/usr", "24.11.5") });
    let mut check = std::process::Command::new(write("tessera-health", &script));
    check.env_clear().env("PATH", format!("{}:/usr/bin:/bin", dir.path().display()));
    let mut check = std::os::unix::process::CommandExt::process_group(&mut check, 0).spawn().unwrap();
    let group = rustix::process::Pid::from_child(&check);
    assert!(check.wait().unwrap().success());
    // Nothing may be left there.
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    let begin = std::time::Instant::now();
    let all = || {
        let text = std::fs::read_to_string(&did).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    while all().len() < 3 && begin.elapsed().as_secs() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(all(), ["health", "idle", "reconcile"].map(str::to_owned).into());
}
