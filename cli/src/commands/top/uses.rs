//! A job's name, and the memory and utilisation of its GPUs while it runs, where Slurm knows them.

use geometry::size::display_gb;

use crate::render::printable;
use crate::slurm::command;
use crate::slurm::tres::{mib, tres};

/// Characters of a name that are shown.
const MOST: usize = 80;

/// Asks Slurm; empty if it knows neither. Slurm tells a user's numbers to nobody else.
pub(super) fn told(id: u32) -> String {
    let id = id.to_string();
    let named =
        command::run("squeue", &["-h", "-j", &id, "-o", "%j"]).map(|text| name(&text)).unwrap_or_default();
    let step = format!("{id}.extern");
    let columns = "TRESUsageInTot,TRESUsageInMax,TRESUsageOutAve";
    let used =
        command::run("sstat", &["-n", "-P", "-j", &step, "-o", columns]).ok().and_then(|text| used(&text));
    format!("{named}{}", used.unwrap_or_default())
}

fn name(text: &str) -> String {
    let name: String = printable(text.lines().next().unwrap_or_default().trim()).chars().take(MOST).collect();
    if name.is_empty() { name } else { format!("name: {name}\n") }
}

/// Reads one line of sstat. A job that was not seen to use anything yet has no numbers.
fn used(text: &str) -> Option<String> {
    let cells: Vec<&str> = text.lines().next()?.split('|').collect();
    let [total, most, mean] = cells[..] else { return None };
    let memory = tres(total, "gres/gpumem")
        .and_then(mib)
        .map(|mib| format!("at most {} of GPU memory", display_gb(mib)));
    let percent =
        |list, what: &str| tres(list, "gres/gpuutil")?.parse::<u32>().ok().map(|n| format!("{n} % {what}"));
    let busy: Vec<String> =
        [percent(mean, "on average"), percent(most, "at most")].into_iter().flatten().collect();
    let busy = (!busy.is_empty()).then(|| format!("GPUs busy {}", busy.join(", ")));
    let said: Vec<String> = [memory, busy].into_iter().flatten().collect();
    (!said.is_empty()).then(|| format!("used: {}\n", said.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sstat_knows_is_said() {
        let line =
            "cpu=00:00:01,gres/gpumem=12000M|cpu=1,gres/gpumem=6000M,gres/gpuutil=93|gres/gpuutil=61\n";
        assert_eq!(
            used(line).unwrap(),
            "used: at most 12.6 GB of GPU memory; GPUs busy 61 % on average, 93 % at most\n"
        );
        assert_eq!(used("cpu=00:00:01|cpu=1|\n"), None);
        assert_eq!(used(""), None);
    }

    #[test]
    fn a_name_moves_no_cursor() {
        assert_eq!(name("train\x1b[2Jnet\nsecond line"), "name: train [2Jnet\n");
        assert_eq!(name(&"x".repeat(500)).len(), "name: \n".len() + MOST);
        assert_eq!(name("\n"), "");
    }
}
