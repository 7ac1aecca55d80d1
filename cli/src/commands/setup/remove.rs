//! `tessera setup --remove`: takes back what `--apply` has changed, and nothing else.

use std::fmt::Write as _;
use std::path::Path;

use node_slurm::slurm_conf;

use super::conf::ConfFile;
use super::plan::Files;
use super::{ended, found, marks, stamp, write};
use crate::outcome::{Failure, Outcome};

/// Takes the changes back, unless only the plugins are to go, and removes the stamped plugins unless Slurm needs them.
pub(super) fn run(
    dir: &Path,
    slurm_conf: &Path,
    plugins_only: bool,
    apply: bool,
) -> Result<Outcome, Failure> {
    let (mut text, mut left) = (String::new(), 0);
    let stays: Vec<String> = if plugins_only {
        // A package may be removed where there is no Slurm.
        let files = found::files(slurm_conf).unwrap_or_default();
        named(&files, dir).into_iter().map(by_hand).chain(named_in_sent(&files, dir)).collect()
    } else {
        let _held = if apply { Some(write::hold(slurm_conf)?) } else { None };
        let files = found::files(slurm_conf)?;
        let undone = undo_all(&files)?;
        let mut stays: Vec<_> = named_in_sent(&files, dir).collect();
        for (file, undone) in &undone {
            left += show(file, undone, &mut text);
            stays.extend(names_tessera(file, undone.text.as_deref(), dir).into_iter().map(by_hand));
        }
        if apply {
            carry_out(&undone, &mut text)?;
            left = undone.iter().map(|(_, undone)| undone.kept.len()).sum();
        }
        stays
    };
    if stays.is_empty() {
        let stamps = stamp::remove(dir, apply)?;
        text.push_str(&stamps.text);
        left += stamps.left;
    } else {
        stays.iter().for_each(|place| _ = writeln!(text, "to do: {place}"));
        let _ = writeln!(
            text,
            "the plugins in {} stay, because Slurm does not start without them",
            dir.display()
        );
        left += stays.len();
    }
    if text.is_empty() {
        text.push_str("nothing of Tessera's is left to take back here\n");
    } else {
        text.push_str(
            "before this: tessera node hand-over on each node with GPUs, also without jobs; docs/uninstall.md has the steps that lose no job\n",
        );
    }
    Ok(ended(text, left, (!apply).then_some("tessera setup --remove --apply")))
}

/// Takes back the changes of every file, in the order of writing. plugstack.conf comes first: until slurm.conf is restored, Slurm finds a
/// plugin without a directory there by its PluginDir, and every `sbatch` would fail. What switches Tessera on comes next.
fn undo_all(files: &Files) -> Result<Vec<(&ConfFile, marks::Undone)>, Failure> {
    let single = [&files.gres, &files.health, &files.tessera];
    let all = files.plugstack.iter().chain(&files.slurm).chain(single);
    let undone = all.filter_map(|file| Some((file, file.text.as_deref()?))).map(|(file, text)| {
        let undone = marks::undo(text).map_err(|marks::BadMarks(line, why)| {
            Failure::new(format!("{}:{line}: {why}", file.path.display()))
                .hint("nothing was changed: take Tessera's lines out of that file by hand, with these comments, then run this again")
        })?;
        Ok((file, undone))
    });
    undone.collect()
}

/// Shows what is taken back and what stays; returns how much that is.
fn show(file: &ConfFile, undone: &marks::Undone, text: &mut String) -> usize {
    let path = file.path.display();
    if !undone.edits.is_empty() {
        let gone = if undone.text.is_none() { ", which goes" } else { "" };
        let _ = writeln!(text, "{path}{gone}\n{}", marks::diff(&undone.edits, false));
    }
    for line in &undone.kept {
        let _ = writeln!(
            text,
            "to do: {path}:{line} was changed after `tessera setup` wrote it, so it stays: correct it by hand"
        );
    }
    undone.edits.len() + undone.kept.len()
}

fn carry_out(undone: &[(&ConfFile, marks::Undone)], text: &mut String) -> Result<(), Failure> {
    for (file, undone) in undone.iter().filter(|(_, undone)| !undone.edits.is_empty()) {
        match &undone.text {
            Some(new) => write::write(&file.path, new, false)?,
            None => write::remove(&file.path)?,
        }
        let _ = writeln!(
            text,
            "{}: {}",
            file.path.display(),
            if undone.text.is_some() { "restored" } else { "removed" }
        );
    }
    Ok(())
}

/// Places at which these files name Tessera.
fn named(files: &Files, plugins: &Path) -> Vec<String> {
    let all = files.slurm.iter().chain(&files.plugstack);
    all.flat_map(|file| names_tessera(file, file.text.as_deref(), plugins)).collect()
}

/// Says what to do about places in the files that slurmctld has sent, if this machine has no others.
fn named_in_sent(files: &Files, plugins: &Path) -> impl Iterator<Item = String> {
    let sent = files.is_configless.then(|| found::files(Path::new(slurm_conf::SENT)).ok()).flatten();
    named(&sent.unwrap_or_default(), plugins).into_iter().map(|place| {
        format!("{place} still names Tessera: slurmctld has sent this file, so change it there, then restart slurmd or sackd here")
    })
}

/// Says what to do about a place in a file of this machine's own.
fn by_hand(place: String) -> String {
    format!("{place} still names Tessera: take that out by hand")
}

/// Places at which a file still names Tessera, such that Slurm would not start without it.
fn names_tessera(file: &ConfFile, text: Option<&str>, plugins: &Path) -> Vec<String> {
    let left = ConfFile { path: file.path.clone(), text: text.map(str::to_owned) };
    let is_named = |line: &super::conf::Logical| {
        line.plugin().is_some_and(|file| file.ends_with("spank_tessera.so"))
            || line.without_tessera(plugins).is_some()
    };
    left.logical()
        .iter()
        .filter(|line| is_named(line))
        .map(|line| format!("{}:{}", file.path.display(), line.first + 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn named(name: &str, text: &str) -> Vec<String> {
        let file = ConfFile { path: name.into(), text: Some(text.to_owned()) };
        names_tessera(&file, Some(text), Path::new("/usr/lib/tessera"))
    }

    /// `dpkg -r` and `rpm -e` come to this.
    #[test]
    fn plugins_that_an_included_file_names_are_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (conf, plugins) = (dir.path().join("slurm.conf"), dir.path().join("lib"));
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        std::fs::create_dir_all(plugins.join("unstamped")).unwrap();
        std::fs::create_dir(dir.path().join("parts")).unwrap();
        ["lib/spank_tessera.so", "lib/unstamped/spank_tessera.so"].iter().for_each(|name| write(name, ""));
        write("slurm.conf", "ClusterName=tessera\n");
        write("plugstack.conf", "include parts/*\n");
        write("parts/10-tessera.conf", "required /usr/lib/tessera/spank_tessera.so\n");
        let refused = run(&plugins, &conf, true, true).unwrap();
        assert!(refused.status == 1 && refused.text.contains("parts/10-tessera.conf:1 still names Tessera"));
        assert!(plugins.join("spank_tessera.so").exists());
        write("parts/10-tessera.conf", "");
        assert_eq!(run(&plugins, &conf, true, true).unwrap().status, 0);
        assert!(!plugins.join("spank_tessera.so").exists());
    }

    #[test]
    fn no_plugin_is_named_any_more_when_slurm_conf_is_restored() {
        let file = |name: &str| {
            let text = marks::apply(None, &[marks::Edit::add(&["x".to_owned()])]).unwrap();
            ConfFile { path: name.into(), text: Some(text) }
        };
        let files = Files {
            slurm: vec![file("slurm.conf")],
            plugstack: vec![file("plugstack.conf")],
            ..Files::default()
        };
        let order: Vec<_> = undo_all(&files).unwrap().iter().map(|(file, _)| file.path.clone()).collect();
        assert_eq!(order, ["plugstack.conf", "slurm.conf"].map(PathBuf::from));
    }

    #[test]
    fn lines_without_which_slurm_would_not_start_are_named() {
        let text = "ClusterName=tessera\nPluginDir=/usr/lib/tessera/:/usr/lib/slurm\nJobSubmitPlugins=lua,tessera\n\
                    AcctGatherEnergyType=acct_gather_energy/tessera\n#JobSubmitPlugins=tessera\n";
        assert_eq!(named("slurm.conf", text), ["slurm.conf:2", "slurm.conf:3", "slurm.conf:4"]);
        assert_eq!(named("slurm.conf", "PluginDir=/opt/tessera2:/usr/lib/slurm\n"), [""; 0]);
        assert_eq!(named("p", "# required spank_tessera.so\nrequired /x/spank_tessera.so a=b\n"), ["p:2"]);
    }
}
