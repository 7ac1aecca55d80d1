//! `tessera setup --remove`: takes back what `--apply` has changed, and nothing else.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::conf::ConfFile;
use super::plan::Files;
use super::{ended, found, marks, stamp, write};
use crate::outcome::{Failure, Outcome};

/// Takes the changes back, if there is a slurm.conf to look beside, and removes the stamped plugins.
pub(super) fn run(dir: &Path, slurm_conf: Option<PathBuf>, apply: bool) -> Result<Outcome, Failure> {
    let (mut text, mut left, mut stays) = (String::new(), 0, Vec::new());
    if let Some(path) = slurm_conf {
        let _held = if apply { Some(write::hold(&path)?) } else { None };
        let files = found::files(&path)?;
        let undone = undo_all(&files)?;
        for (file, undone) in &undone {
            left += show(file, undone, &mut text);
            stays.extend(names_tessera(file, undone.text.as_deref(), dir));
        }
        if apply {
            carry_out(&undone, &mut text)?;
            left = undone.iter().map(|(_, undone)| undone.kept.len()).sum();
        }
    }
    if stays.is_empty() {
        let stamps = stamp::remove(dir, apply)?;
        text.push_str(&stamps.text);
        left += stamps.left;
    } else {
        for place in &stays {
            let _ = writeln!(text, "to do: {place} still names Tessera: take that out by hand");
        }
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

/// Takes back the changes of every file, in the order of writing: what switches Tessera on comes first.
fn undo_all(files: &Files) -> Result<Vec<(&ConfFile, marks::Undone)>, Failure> {
    let single = [&files.gres, &files.health, &files.tessera];
    let all = files.slurm.iter().chain(&files.plugstack).chain(single);
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

    fn named(name: &str, text: &str) -> Vec<String> {
        let file = ConfFile { path: name.into(), text: Some(text.to_owned()) };
        names_tessera(&file, Some(text), Path::new("/usr/lib/tessera"))
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
