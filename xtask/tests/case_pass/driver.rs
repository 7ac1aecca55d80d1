//! `tessera-clang++`: what it adds to clang's command line, and what it says when something is missing.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};

use crate::tools::built;

/// Runs the driver with a clang that prints its arguments, one a line.
fn run(dir: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let echo = dir.join("echo");
    fs::write(&echo, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
    fs::set_permissions(&echo, fs::Permissions::from_mode(0o755)).unwrap();
    let mut driver = Command::new(built().join("tessera-clang++"));
    driver.args(arguments).env("TESSERA_CLANG", &echo).env_remove("TESSERA_PASS_REPORT");
    driver.envs(environment.iter().copied()).output().unwrap()
}

fn printed(dir: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Vec<String> {
    let out = run(dir, arguments, environment);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn contains(haystack: &[String], needle: &[&str]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[test]
fn every_option_goes_to_clang_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let odd = ["-c", "a b.cu", "-DX=\"q $HOME *\"", "", "-Wl,-z,now", "-o", "x y.o"];
    let lines = printed(dir.path(), &odd, &[]);
    assert!(contains(&lines, &odd), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("-fpass-plugin=")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("tessera_task")), "compiling links nothing: {lines:?}");
}

#[test]
fn linking_adds_the_library_before_the_programs_own() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("libtessera_task.so"), "").unwrap();
    let library = dir.path().to_str().unwrap();
    let lines = printed(dir.path(), &["a.o", "-lcudart"], &[("TESSERA_TASK_LIB_DIR", library)]);
    let at = |text: &str| {
        lines.iter().position(|line| line == text).unwrap_or_else(|| panic!("{text}: {lines:?}"))
    };
    assert!(at("-ltessera_task") < at("-lcudart"));
    at(&format!("-Wl,-rpath,{library}"));
    // Nothing to link in these.
    for arguments in [&["--version"][..], &["-E", "a.cu"], &["-fsyntax-only", "a.cu"], &["-o", "a"]] {
        let lines = printed(dir.path(), arguments, &[("TESSERA_TASK_LIB_DIR", library)]);
        assert!(!lines.contains(&"-ltessera_task".to_owned()), "{lines:?}");
    }
}

#[test]
fn a_report_needs_lines_and_names() {
    let dir = tempfile::tempdir().unwrap();
    let report = [("TESSERA_PASS_REPORT", "/dev/null")];
    let lines = printed(dir.path(), &["-c", "a.cu"], &report);
    assert!(contains(&lines, &["-Xarch_host", "-gline-tables-only"]), "{lines:?}");
    let lines = printed(dir.path(), &["-c", "-g", "a.cu"], &report);
    assert!(!contains(&lines, &["-gline-tables-only"]), "-g says more: {lines:?}");
}

#[test]
fn what_is_missing_is_named_with_what_would_help() {
    let dir = tempfile::tempdir().unwrap();
    let out = run(dir.path(), &["a.cu"], &[("TESSERA_TASK_LIB_DIR", "/nonexistent")]);
    assert_eq!(out.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8_lossy(&out.stderr), @r"
        tessera-clang++: /nonexistent/libtessera_task.so: no such file. Name its directory in TESSERA_TASK_LIB_DIR.
        ");
    let out = run(dir.path(), &["-c", "a.cu"], &[("TESSERA_PASS_PLUGIN", "/nonexistent/pass.so")]);
    assert_eq!(out.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8_lossy(&out.stderr), @r"
        tessera-clang++: /nonexistent/pass.so: no such file. Install Tessera whole, or name the pass in TESSERA_PASS_PLUGIN.
        ");
}

/// `PREFIX/bin`, `PREFIX/lib/tessera` and `PREFIX/include`, also through a link to the program.
#[test]
fn an_installed_driver_finds_its_parts() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().canonicalize().unwrap();
    for part in ["bin", "lib/tessera", "include", "elsewhere"] {
        fs::create_dir_all(prefix.join(part)).unwrap();
    }
    // By a process of its own: a child that another test starts meanwhile would keep our copy open for writing, and nobody could run it.
    let copied = Command::new("cp")
        .arg(lab::case_pass::source().join("tessera-clang++"))
        .arg(prefix.join("bin"))
        .status()
        .unwrap();
    assert!(copied.success());
    for part in ["tessera-case-pass.so", "libtessera_task.so"] {
        fs::write(prefix.join("lib/tessera").join(part), "").unwrap();
    }
    let link = prefix.join("elsewhere/tessera-clang++");
    symlink("../bin/tessera-clang++", &link).unwrap();
    let out = Command::new(&link).arg("a.cu").env("TESSERA_CLANG", "echo").output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let library = prefix.join("lib/tessera");
    for part in [
        format!("-fpass-plugin={}/tessera-case-pass.so", library.display()),
        format!("-L{}", library.display()),
        format!("-idirafter {}/include", prefix.display()),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
}
