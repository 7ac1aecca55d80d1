//! Packages, installed, upgraded and removed in a root of their distribution.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use lab::command::{Done, PATIENCE, run, wait_for};
use lab::paths;
use slurm_releases::Release;

/// The version that comes while jobs run.
const UPGRADE: &str = "0.1.1";

/// Builds a package from what is built for tests.
fn package(format: &str, release: Release, version: &str, out: &Path) -> PathBuf {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(["package", "--debug", "--format", format, "--slurm", &release.to_string()]);
    xtask.args(["--as-version", version, "--slurm-package", "slurm-wlm-basic-plugins", "--out"]).arg(out);
    PathBuf::from(ok(&mut xtask).rsplit_once(" (").unwrap().0)
}

fn ok(command: &mut Command) -> String {
    run(command).unwrap().ok().unwrap()
}

/// A copy of a root with Debian and Slurm, which may be changed.
struct Root(tempfile::TempDir);

impl Root {
    fn copy(release: Release) -> Self {
        let dir = tempfile::tempdir_in(paths::target_dir()).unwrap();
        let from = paths::debian_root(release).join(".");
        ok(Command::new("cp").args(["-ax", "--reflink=auto"]).arg(from).arg(dir.path()));
        Self(dir)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn run(&self, line: &str) -> Done {
        run(Command::new("chroot").arg(self.0.path()).args(["sh", "-c", line])).unwrap()
    }

    /// Puts a file into the root, where its name is the same.
    fn bring(&self, file: &Path) -> String {
        let name = file.file_name().unwrap().to_str().unwrap();
        fs::copy(file, self.at(name)).unwrap();
        format!("/{name}")
    }

    /// Every file, but not what the package manager writes of itself.
    fn files(&self) -> BTreeSet<String> {
        let list = self.run("find / -xdev -path /proc -prune -o -type f -print");
        let own = ["/var/lib/dpkg", "/var/lib/rpm", "/var/log", "/var/cache", "/tessera"];
        let foreign = |file: &&str| !own.iter().any(|dir| file.starts_with(dir));
        list.stdout.lines().filter(foreign).map(str::to_owned).collect()
    }
}

/// What a user and an admin find after the installation.
fn is_usable(root: &Root) {
    let said = root.run("tessera --version").ok().unwrap();
    assert!(said.starts_with("tessera "), "{said}");
    let example = "/usr/share/doc/tessera/examples/tessera.toml";
    root.run(&format!("tessera --config {example} check")).ok().unwrap();
    let missing = root.run("ldd /usr/lib/tessera/*.so /usr/sbin/tessera-broker | grep 'not found'");
    assert_eq!(missing.stdout, "", "a library that the package does not name");
    let unit = fs::read_to_string(root.at("usr/lib/systemd/system/tessera-planner.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/tessera planner"), "{unit}");
    assert!(root.at("usr/share/man/man1/tessera.1.gz").is_file());
    assert!(root.at("usr/share/bash-completion/completions/tessera").is_file());
}

/// A node in the middle of its work: a daemon that has opened the SPANK plugin as slurmd has, a job's journal, and prologs that
/// look for Tessera's files all the time.
struct Busy<'r> {
    root: &'r Root,
    daemon: Child,
    prologs: Child,
    /// The plugin that the daemon has opened.
    opened: Vec<u8>,
}

const PLUGIN: &str = "usr/lib/tessera/spank_tessera.so";
const JOURNAL: &str = "var/lib/tessera/jobs/7";
/// Notes each file that is missing at any moment, after the first round beside the file that says so.
const PROLOGS: &str = "while [ ! -e /tessera-stop ]; do \
    for file in /usr/lib/tessera/*tessera.so /usr/lib/tessera/select_cons_tres.so /usr/bin/tessera /usr/sbin/tessera-broker; do \
    [ -x \"$file\" ] || [ -s \"$file\" ] || echo \"$file\" >> /tessera-missed; done; : > /tessera-looked; done";

impl<'r> Busy<'r> {
    fn begin(root: &'r Root) -> Self {
        fs::create_dir_all(root.at(JOURNAL).parent().unwrap()).unwrap();
        fs::write(root.at(JOURNAL), "whole:0,1").unwrap();
        let spawn =
            |line: &str| Command::new("chroot").arg(root.0.path()).args(["sh", "-c", line]).spawn().unwrap();
        let daemon = spawn(&format!("exec 3< /{PLUGIN}; exec sleep 3600"));
        let prologs = spawn(PROLOGS);
        let busy = Self { root, daemon, prologs, opened: fs::read(root.at(PLUGIN)).unwrap() };
        wait_for("the node to be at work", PATIENCE, || {
            let works = busy.file().exists() && root.at("tessera-looked").exists();
            if works { Ok(()) } else { Err(format!("{:?}", fs::read_link(busy.file()))) }
        })
        .unwrap();
        busy
    }

    /// The file that the daemon has opened.
    fn file(&self) -> PathBuf {
        format!("/proc/{}/fd/3", self.daemon.id()).into()
    }

    /// The upgrade is over: nobody has lost anything.
    fn assert_undisturbed(mut self) {
        assert!(self.daemon.try_wait().unwrap().is_none(), "the daemon has ended");
        let old = fs::read_link(self.file()).unwrap();
        assert!(old.to_string_lossy().ends_with("(deleted)"), "its file was written over: {}", old.display());
        assert!(fs::read(self.file()).unwrap() == self.opened, "its file has changed");
        fs::write(self.root.at("tessera-stop"), "").unwrap();
        assert!(self.prologs.wait().unwrap().success());
        let missed = fs::read_to_string(self.root.at("tessera-missed")).unwrap_or_default();
        assert_eq!(missed, "", "a prolog would not have found these");
        assert_eq!(fs::read_to_string(self.root.at(JOURNAL)).unwrap(), "whole:0,1");
        fs::remove_dir_all(self.root.at("var/lib/tessera")).unwrap();
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        for child in [&mut self.daemon, &mut self.prologs] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Removal is refused while slurm.conf names Tessera, and takes everything away afterwards.
fn leaves_nothing(root: &Root, remove: impl Fn() -> Done, before: &BTreeSet<String>) {
    fs::create_dir_all(root.at("etc/slurm")).unwrap();
    fs::write(root.at("etc/slurm/slurm.conf"), "# of Tessera\nPluginDir=/usr/lib/tessera:/usr/lib/slurm\n")
        .unwrap();
    let refused = remove();
    assert_ne!(refused.code, Some(0));
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(said.contains("/etc/slurm/slurm.conf still names Tessera"), "{said}");
    assert!(root.at("usr/lib/tessera/select_cons_tres.so").is_file());
    fs::write(root.at("etc/slurm/slurm.conf"), "# of Tessera\n").unwrap();
    remove().ok().unwrap();
    fs::remove_file(root.at("etc/slurm/slurm.conf")).unwrap();
    let after = root.files();
    let changed: Vec<_> = after.symmetric_difference(before).collect();
    assert!(changed.is_empty(), "{changed:?}");
}

fn debian(release: Release) {
    let out = tempfile::tempdir_in(paths::target_dir()).unwrap();
    let root = Root::copy(release);
    let before = root.files();
    for version in ["0.1.0", UPGRADE] {
        let package = package("deb", release, version, out.path());
        let name = root.bring(&package);
        let busy = (version == UPGRADE).then(|| Busy::begin(&root));
        root.run(&format!("dpkg -i {name}")).ok().unwrap();
        is_usable(&root);
        busy.into_iter().for_each(Busy::assert_undisturbed);
        let installed = root.run("dpkg-query -W -f '${Version} ${db:Status-Status}' tessera").stdout;
        assert!(installed.starts_with(&format!("{version}+slurm{release}.")), "{installed}");
        assert!(installed.ends_with(" installed"), "{installed}");
    }
    // Debian's own Slurm is what it depends on: another version would not load the plugins.
    let refused = root.run("dpkg -r slurm-wlm-basic-plugins");
    assert!(refused.stderr.contains("tessera depends on slurm-wlm-basic-plugins"), "{}", refused.stderr);
    leaves_nothing(&root, || root.run("dpkg -r tessera"), &before);
}

#[test]
fn a_deb_is_installed_upgraded_and_removed_on_debian_12() {
    debian(Release::V22_05);
}

#[test]
fn a_deb_is_installed_upgraded_and_removed_on_debian_13() {
    debian(Release::V24_11);
}

#[test]
fn an_rpm_is_installed_upgraded_and_removed() {
    let release = Release::V22_05;
    let out = tempfile::tempdir_in(paths::target_dir()).unwrap();
    let root = Root::copy(release);
    let before = root.files();
    // Debian's packages are not in RPM's database, so what the package needs is asked of the package.
    let rpm = |arguments: &[&str]| {
        let mut rpm = Command::new("rpm");
        rpm.arg("--root").arg(root.0.path()).args(["--nodeps", "--dbpath", "/var/lib/rpm"]).args(arguments);
        run(&mut rpm).unwrap()
    };
    for version in ["0.1.0", UPGRADE] {
        let package = package("rpm", release, version, out.path());
        let busy = (version == UPGRADE).then(|| Busy::begin(&root));
        rpm(&["-U", package.to_str().unwrap()]).ok().unwrap();
        is_usable(&root);
        busy.into_iter().for_each(Busy::assert_undisturbed);
        let needs = ok(Command::new("rpm").args(["-qp", "--requires"]).arg(&package));
        for needed in ["slurm-wlm-basic-plugins >= 22.05", "slurm-wlm-basic-plugins < 22.05", "libc.so.6"] {
            assert!(needs.contains(needed), "{needed}: {needs}");
        }
        let offers = ok(Command::new("rpm").args(["-qp", "--provides"]).arg(&package));
        assert!(!offers.contains(".so"), "{offers}");
    }
    leaves_nothing(&root, || rpm(&["-e", "tessera"]), &before);
}
