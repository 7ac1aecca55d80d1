//! Packages, installed, upgraded and removed in a root of their distribution.

#![allow(clippy::unwrap_used, reason = "tests")]

mod ansible;
mod live;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use lab::command::{Done, PATIENCE, run, wait_for};
use lab::paths;
use slurm_releases::Release;

use live::Live;

/// The version that comes while jobs run.
const UPGRADE: &str = "0.1.1";

/// Builds a package from what is built for tests.
fn package(format: &str, version: &str, out: &Path) -> PathBuf {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(["package", "--debug", "--format", format, "--as-version", version, "--out"]).arg(out);
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

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn run(&self, line: &str) -> Done {
        run(Command::new("chroot").arg(self.0.path()).args(["sh", "-c", line])).unwrap()
    }

    /// Names the users whose jobs run there, as the machine does.
    fn knows_the_test_users(&self) {
        let machine = fs::read_to_string("/etc/passwd").unwrap();
        let own = fs::read_to_string(self.at("etc/passwd")).unwrap();
        let is_test_user =
            |line: &&str| paths::TEST_USERS.iter().any(|name| line.starts_with(&format!("{name}:")));
        let missing =
            machine.lines().filter(is_test_user).filter(|line| !own.lines().any(|own| own == *line));
        let all = missing.fold(own.clone(), |all, line| all + line + "\n");
        fs::write(self.at("etc/passwd"), all).unwrap();
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

/// Checks what a user and an admin find after the installation.
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

/// Prologs that look for Tessera's files all the time, and what a node remembers of its jobs.
struct Prologs<'r> {
    root: &'r Root,
    looks: Child,
}

const JOURNAL: &str = "var/lib/tessera/jobs/7";
/// Notes each file that is missing at any moment, after the first round beside the file that says so.
const LOOK: &str = "while [ ! -e /tessera-stop ]; do \
    for file in /usr/lib/tessera/*tessera.so /usr/lib/tessera/select_cons_tres.so /usr/bin/tessera /usr/sbin/tessera-broker; do \
    [ -x \"$file\" ] || [ -s \"$file\" ] || echo \"$file\" >> /tessera-missed; done; : > /tessera-looked; done";

impl<'r> Prologs<'r> {
    fn begin(root: &'r Root) -> Self {
        fs::create_dir_all(root.at(JOURNAL).parent().unwrap()).unwrap();
        fs::write(root.at(JOURNAL), "whole:0,1").unwrap();
        let looks = Command::new("chroot").arg(root.path()).args(["sh", "-c", LOOK]).spawn().unwrap();
        let prologs = Self { root, looks };
        wait_for("a first look", PATIENCE, || {
            if root.at("tessera-looked").exists() { Ok(()) } else { Err("none".to_owned()) }
        })
        .unwrap();
        prologs
    }

    /// The upgrade is over: none of them missed a file, and nobody touched the journal.
    fn assert_undisturbed(mut self) {
        fs::write(self.root.at("tessera-stop"), "").unwrap();
        assert!(self.looks.wait().unwrap().success());
        let missed = fs::read_to_string(self.root.at("tessera-missed")).unwrap_or_default();
        assert_eq!(missed, "", "a prolog would not have found these");
        assert_eq!(fs::read_to_string(self.root.at(JOURNAL)).unwrap(), "whole:0,1");
        fs::remove_dir_all(self.root.at("var/lib/tessera")).unwrap();
    }
}

impl Drop for Prologs<'_> {
    fn drop(&mut self) {
        let _ = self.looks.kill();
        let _ = self.looks.wait();
    }
}

/// Upgrades below running jobs, by `upgrade`, then removes by `remove`; only the files of `before` are left.
fn under_jobs(
    root: &Root,
    release: Release,
    upgrade: impl Fn(),
    remove: impl Fn() -> Done,
    before: &BTreeSet<String>,
) {
    let mut live = Live::begin(root, release);
    let prologs = Prologs::begin(root);
    // Both versions are one build here: without this, no plugin would have to be replaced.
    root.run("tessera setup --plugins-only --apply --slurm 25.05.3").ok().unwrap();
    upgrade();
    is_usable(root);
    live.is_upgraded();
    prologs.assert_undisturbed();
    live.is_removed(remove);
    drop(live);
    let after = root.files();
    let changed: Vec<_> = after.symmetric_difference(before).collect();
    assert!(changed.is_empty(), "{changed:?}");
}

/// Tests that a package with one of Slurm's programs stamps the plugins when it comes, and each start of a daemon if they need it.
fn another_slurm_stamps_the_plugins_again(root: &Root) {
    let stamp = || root.run("tessera setup --plugins-only").ok().unwrap();
    let good = stamp();
    assert!(good.lines().skip(1).all(|line| line.ends_with(": good")) && good.lines().count() == 7, "{good}");
    let before_start =
        "sed -n 's/^ExecStartPre=-+//p' /usr/lib/systemd/system/UNIT.service.d/tessera.conf | sh -e";
    for way in [
        "dpkg-trigger --by-package=slurmctld /usr/sbin/slurmctld && dpkg --triggers-only -a",
        "dpkg-trigger --by-package=slurm-client /usr/bin/sinfo && dpkg --triggers-only -a",
        &before_start.replace("UNIT", "slurmctld"),
        &before_start.replace("UNIT", "slurmd"),
    ] {
        root.run("tessera setup --plugins-only --apply --slurm 25.05.3").ok().unwrap();
        let other = root.run("tessera setup --plugins-only");
        assert!(
            other.code == Some(1) && other.stdout.contains("to be stamped, now for Slurm 25.05.3"),
            "{other:?}"
        );
        root.run(way).ok().unwrap();
        assert_eq!(stamp(), good, "{way}");
    }
}

/// Installs a package as `contrib/container/Containerfile` does, and finds its options through the include of a plugstack.conf.
fn is_in_an_image(root: &Root, package: &Path) {
    let file = fs::read_to_string(paths::workspace().join("contrib/container/Containerfile")).unwrap();
    let (_, script) = file.split_once("\nRUN ").unwrap();
    fs::create_dir(root.at("tmp/tessera")).unwrap();
    fs::copy(package, root.at("tmp/tessera").join(package.file_name().unwrap())).unwrap();
    root.run(&script.replace("\\\n", "")).ok().unwrap();
    assert!(!root.at("tmp/tessera").exists());
    let conf = "ClusterName=c\nSlurmctldHost=c\nPlugStackConfig=/tmp/plugstack.conf\nNodeName=n1\n";
    fs::write(root.at("tmp/slurm.conf"), conf).unwrap();
    fs::write(root.at("tmp/plugstack.conf"), "include /usr/share/tessera/plugstack/*\n").unwrap();
    let help = root.run("SLURM_CONF=/tmp/slurm.conf sbatch --help").ok().unwrap();
    assert!(help.contains("--gpu-mem="), "{help}");
    for name in ["slurm.conf", "plugstack.conf"] {
        fs::remove_file(root.at("tmp").join(name)).unwrap();
    }
    fs::remove_dir_all(root.at("usr/share/tessera/plugstack")).unwrap();
}

fn debian(release: Release) {
    let out = tempfile::tempdir_in(paths::target_dir()).unwrap();
    let root = Root::copy(release);
    let before = root.files();
    let install = |version: &str| {
        let name = root.bring(&package("deb", version, out.path()));
        root.run(&format!("dpkg -i {name}")).ok().unwrap();
        let installed = root.run("dpkg-query -W -f '${Version} ${db:Status-Status}' tessera").stdout;
        assert_eq!(installed, format!("{version} installed"));
    };
    if release == Release::V24_11 {
        is_in_an_image(&root, &package("deb", "0.1.0", out.path()));
    } else {
        install("0.1.0");
    }
    is_usable(&root);
    another_slurm_stamps_the_plugins_again(&root);
    under_jobs(&root, release, || install(UPGRADE), || root.run("dpkg -r tessera"), &before);
}

#[test]
fn a_deb_is_installed_upgraded_and_removed_on_debian_12() {
    debian(Release::V22_05);
}

#[test]
fn a_deb_is_installed_upgraded_and_removed_on_debian_13() {
    debian(Release::V24_11);
}

/// Asks for other stamps where nothing can be written: the plugins stay as they are, whole.
fn is_told_of_a_read_only_usr(usr: &Path) {
    let plugin = usr.join("lib/tessera/spank_tessera.so");
    let before = fs::read(&plugin).unwrap();
    let usr = usr.display();
    let line = format!(
        "mount --bind {usr} {usr} && mount -o remount,ro,bind {usr} && \
         exec {usr}/bin/tessera setup --plugins-only --apply --slurm 25.05.3"
    );
    let refused = run(Command::new("unshare").args(["-m", "--", "sh", "-c", &line])).unwrap();
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("Read-only file system"), "{}", refused.stderr);
    assert_eq!(fs::read(&plugin).unwrap(), before);
}

#[test]
fn an_archive_is_unpacked_and_set_up() {
    let out = tempfile::tempdir_in(paths::target_dir()).unwrap();
    let archive = package("tar", "0.1.0", out.path());
    ok(Command::new("tar").arg("--directory").arg(out.path()).arg("--extract").arg("--file").arg(&archive));
    let tessera = out.path().join("usr/bin/tessera");
    let setup = ["setup", "--plugins-only", "--apply", "--slurm", "24.11.5"];
    let said = ok(Command::new(&tessera).args(setup));
    assert_eq!(said.matches(": stamped").count(), 6, "{said}");
    assert!(out.path().join("usr/lib/tessera/spank_tessera.so").is_file());
    is_told_of_a_read_only_usr(&out.path().join("usr"));
    // The directory may have another name, too.
    let link = out.path().join("link");
    std::os::unix::fs::symlink(out.path().join("usr/lib/tessera"), &link).unwrap();
    let alike = ["setup", "--plugins-only", "--slurm", "24.11.5", "--plugins"];
    let said = ok(Command::new(&tessera).args(alike).arg(&link));
    assert_eq!(said.matches(": good").count(), 6, "{said}");
    let said = ok(Command::new(&tessera).args(["setup", "--plugins-only", "--remove", "--apply"]));
    assert_eq!(said.matches(": removed").count(), 6, "{said}");
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
    let install = |version: &str| {
        let package = package("rpm", version, out.path());
        rpm(&["-U", package.to_str().unwrap()]).ok().unwrap();
        package
    };
    let package = install("0.1.0");
    is_usable(&root);
    let needs = ok(Command::new("rpm").args(["-qp", "--requires"]).arg(&package));
    assert!(needs.contains("libc.so.6") && !needs.contains("slurm"), "{needs}");
    let offers = ok(Command::new("rpm").args(["-qp", "--provides"]).arg(&package));
    assert!(!offers.contains(".so"), "{offers}");
    under_jobs(&root, release, || drop(install(UPGRADE)), || rpm(&["-e", "tessera"]), &before);
}

/// Goes from stock Slurm to a job with `--gpu-mem`, in a root without Rust and without sources: `docs/compatibility.md`. The script uses
/// fixed ports, so the roots take turns.
#[test]
fn from_a_package_to_the_first_job() {
    let out = tempfile::tempdir_in(paths::target_dir()).unwrap();
    for (release, format) in [(Release::V24_11, "tar"), (Release::V26_05, "deb")] {
        let mut script = Command::new(paths::workspace().join("tests/first-job.sh"));
        script.arg(paths::debian_root(release)).arg(package(format, "0.1.0", out.path()));
        let said = ok(script.arg(paths::target_dir().join("debug")));
        let devices = |begin: &str| {
            let line = said.lines().find(|line| line.starts_with(begin));
            line.and_then(|line| line.split_once("CUDA_VISIBLE_DEVICES=")).map(|(_, devices)| devices)
        };
        assert_eq!(devices("plain Slurm: "), Some("0"), "{said}");
        assert!(devices("with Tessera: ").is_some_and(|uuid| uuid.starts_with("MIG-")), "{said}");
        assert!(said.contains(" setup ") && said.contains(" together "), "{said}");
    }
}
