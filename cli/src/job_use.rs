//! A job's name, and the memory and utilisation of its GPUs while it runs, where Slurm knows them.

use geometry::size::display_gb;

use crate::render::printable;
use crate::slurm::command;
use crate::slurm::tres::{mib, tres};

/// Characters of a name that are shown.
const MOST: usize = 80;

/// A job's name and use, each `None` if Slurm does not tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobUse {
    pub(crate) name: Option<String>,
    /// Memory and utilisation of its GPUs so far, in words.
    pub(crate) used: Option<String>,
}

impl JobUse {
    /// Asks Slurm. It tells a user's numbers only to that user, SlurmUser and root.
    pub(crate) fn ask(id: u32) -> Self {
        let id = id.to_string();
        let name = command::run("squeue", &["-h", "-j", &id, "-o", "%j"]).ok().and_then(|text| name(&text));
        let columns = "JobID,TRESUsageInTot,TRESUsageInMax,TRESUsageOutMax";
        let used = command::run("sstat", &["-a", "-n", "-P", "-j", &id, "-o", columns]).ok();
        Self { name, used: used.and_then(|text| used_by(&text, &id)) }
    }

    /// Writes a line for each of both that is known.
    pub(crate) fn text(&self) -> String {
        let line = |what: &str, value: Option<&str>| {
            value.map_or_else(String::new, |value| format!("{what}: {value}\n"))
        };
        line("name", self.name.as_deref()) + &line("used", self.used.as_deref())
    }
}

fn name(text: &str) -> Option<String> {
    let name: String = printable(text.lines().next().unwrap_or_default().trim()).chars().take(MOST).collect();
    (!name.is_empty()).then_some(name)
}

/// Reads sstat's lines, one of each step, and takes the highest of each number: on several nodes, that of the busiest. A job that was
/// not seen to use anything yet has no numbers. For the first task of an array, sstat prints the steps of all.
fn used_by(text: &str, id: &str) -> Option<String> {
    let is_own = |line: &&str| line.split_once('.').is_some_and(|(of, _)| of == id);
    let highest = |column: usize, name: &'static str, unit: fn(&str) -> Option<u64>| {
        let of = |line: &str| unit(tres(line.split('|').nth(column)?, name)?);
        text.lines().filter(is_own).filter_map(of).max()
    };
    let memory =
        highest(1, "gres/gpumem", mib).map(|mib| format!("at most {} of GPU memory", display_gb(mib)));
    let percent = |column, what: &str| {
        highest(column, "gres/gpuutil", |n| n.parse().ok()).map(|n| format!("{n} % {what}"))
    };
    let busy: Vec<String> = [percent(3, "on average"), percent(2, "at most")].into_iter().flatten().collect();
    let busy = (!busy.is_empty()).then(|| format!("GPUs busy {}", busy.join(", ")));
    let said: Vec<String> = [memory, busy].into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sstat_knows_is_said() {
        let script = "7.batch|cpu=00:00:01,gres/gpumem=12000M|cpu=1,gres/gpumem=6000M,gres/gpuutil=93|gres/gpuutil=61\n";
        let step = "7.0|cpu=00:00:01,gres/gpumem=1M|cpu=1|\n";
        let other = "8.batch|gres/gpumem=99000M||\n";
        assert_eq!(
            used_by(&[step, script, other].concat(), "7").unwrap(),
            "at most 12.6 GB of GPU memory; GPUs busy 61 % on average, 93 % at most"
        );
        assert_eq!(used_by("7.batch|cpu=00:00:01|cpu=1|\n", "7"), None);
        assert_eq!(used_by("", "7"), None);
    }

    #[test]
    fn a_name_moves_no_cursor() {
        assert_eq!(name("train\x1b[2Jnet\nsecond line").unwrap(), "train [2Jnet");
        assert_eq!(name(&"x".repeat(500)).unwrap().len(), MOST);
        assert_eq!(name("\n"), None);
        let known = JobUse { name: Some("net".to_owned()), used: None };
        assert_eq!((known.text().as_str(), JobUse::default().text().as_str()), ("name: net\n", ""));
    }
}
