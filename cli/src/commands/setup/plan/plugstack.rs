//! The line of plugstack.conf that loads Tessera's SPANK plugin.

use super::super::conf::{ConfFile, Logical};
use super::super::marks::{At, Edit};
use super::{Files, Installed, Plan, place};

/// Plans the line. `is_sent` says that Slurm sends the file to the nodes, without what it includes from other directories.
pub(super) fn plan(files: &Files, installed: &Installed, is_sent: bool, plan: &mut Plan) {
    let Some(main) = files.plugstack.first() else { return };
    let pyxis = pyxis(files);
    if files.plugstack.iter().any(|file| file.logical().iter().any(|line| loads(line, "spank_tessera.so"))) {
        return;
    }
    let line = format!(
        "required spank_tessera.so config={} tessera={}",
        files.tessera.path.display(),
        installed.program.display()
    );
    if let Some((place, _)) = &pyxis {
        plan.notes.push(format!(
            "{place}: pyxis stays. Tessera's line comes before it, so that a container gets the devices that Tessera has set"
        ));
    }
    let part = files.plugstack_part.as_ref().filter(|_| !is_sent);
    if let Some(part) = part {
        let there = files.plugstack.iter().find(|file| file.path == *part);
        let file = there.cloned().unwrap_or_else(|| ConfFile { path: part.clone(), text: None });
        plan.change(&file, vec![Edit::add(&[line])]);
        return;
    }
    let at = pyxis.map_or(At::End, |(_, before)| At::Line(before));
    plan.change(main, vec![Edit { at, was: Vec::new(), now: vec![line] }]);
}

/// Finds pyxis: where it is, and the line of the first file that loads or includes it.
fn pyxis(files: &Files) -> Option<(String, usize)> {
    let (main, others) = files.plugstack.split_first()?;
    if let Some(line) = main.logical().iter().find(|line| loads(line, "pyxis")) {
        return Some((place(&main.path, line), line.first));
    }
    let (file, line) = others.iter().find_map(|file| {
        file.logical().into_iter().find(|line| loads(line, "pyxis")).map(|line| (file, line))
    })?;
    // The first include, whichever file it finds: pyxis comes behind it.
    let before = main.logical().iter().find(|line| line.include().is_some()).map_or(0, |line| line.first);
    Some((place(&file.path, &line), before))
}

/// Tells whether a line loads a plugin with this in its file's name.
fn loads(line: &Logical, name: &str) -> bool {
    line.plugin().is_some_and(|file| file.contains(name))
}
