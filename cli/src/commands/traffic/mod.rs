//! `tessera traffic`: what jobs send between their GPUs, and whether the next ones need good links.

mod learnt;

use std::path::{Path, PathBuf};

use clap::Args;
use geometry::counted;
use learnt_bandwidth::FILE;
use plugin_rt::kept_file::{KeptFile, Readers};
use protocol::Bandwidth;
use serde_json::json;

use crate::clock::since;
use crate::files;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::render::{gigabytes, table};
use crate::site;
use crate::slurm::sacct::lines;
use crate::slurm::scontrol;
use learnt::{COLUMNS, Programs, TrafficRow};

/// Show how much jobs send between their GPUs, and learn which need good links
///
/// Counts completed jobs with several whole GPUs that ran for a minute or longer, if the site accounts ic/nvlink and ic/pcie. Jobs of
/// a user count as one program if they name the same application (--gpu-app), and else if they have the same name and number
/// of GPUs. A program is sensitive to bandwidth if its GPUs send 0.5 GB/s or more on average. Below that, faster links save at most
/// 5 % of its time, if its GPUs all send about the same. Insensitive needs three runs that all send less, with both ic/nvlink and
/// ic/pcie counted. With --write, slurmctld uses what was learnt for jobs that do not say --gpu-bandwidth themselves.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera traffic
  tessera traffic --since 7d --json
  tessera traffic --write          once a day, as root, on slurmctld's machine")]
pub(crate) struct TrafficArgs {
    /// How far back to look: 7d or 12h; a number alone is minutes
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = since)]
    pub(crate) since: u64,
    /// Write what was learnt for slurmctld, into its StateSaveLocation
    #[arg(long)]
    pub(crate) write: bool,
    /// Read the output of sacct from FILE (- for standard input) instead of running it
    ///
    /// tessera prints the columns that it needs if it cannot read the file.
    #[arg(long, value_name = "FILE", conflicts_with = "write")]
    pub(crate) from: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &TrafficArgs, globals: &Globals) -> Result<Outcome, Failure> {
    // Before sacct is asked: a site that has named no file is told so at once.
    let target = if args.write { Some(target(globals)?) } else { None };
    let programs = match &args.from {
        Some(path) => programs_in(path)?,
        None => {
            let mut programs = Programs::default();
            lines::of_completed_jobs(args.since, COLUMNS, |line| programs.take(line))?;
            programs
        }
    };
    let rows = programs.rows();
    let mut said = if args.json {
        format!("{:#}\n", json!(rows.iter().map(as_json).collect::<Vec<_>>()))
    } else {
        text(&rows)
    };
    if let Some(file) = target {
        let table = learnt::table(&rows);
        let path = file.path();
        // Always another file: slurmctld reads one again only if its time has changed.
        file.replace(table.to_string().as_bytes(), Readers::All).map_err(|e| {
            Failure::new(format!("cannot write {}: {e}", path.display()))
                .hint("run it as root or SlurmUser, on slurmctld's machine")
        })?;
        if !args.json {
            said += &format!("{}: {}\n", path.display(), counted(table.len() as u64, "row"));
        }
    }
    Ok(Outcome::ok(said))
}

/// Reads the programs from a file.
fn programs_in(path: &Path) -> Result<Programs, Failure> {
    let mut programs = Programs::default();
    lines::of_file(files::open(path)?, COLUMNS, |line| programs.take(line))
        .map_err(|e| e.within(path.display()))?;
    Ok(programs)
}

/// The file in slurmctld's directory, if the site lets what is learnt be used.
fn target(globals: &Globals) -> Result<KeptFile, Failure> {
    if !site::load(globals.config.as_deref())?.learn_bandwidth {
        return Err(Failure::new("tessera.toml does not let slurmctld use what is learnt")
            .hint("add learn = true to [bandwidth], and run scontrol reconfigure"));
    }
    let settings = scontrol::config()?;
    let dir = scontrol::setting(&settings, "StateSaveLocation").filter(|dir| dir.starts_with('/'));
    let dir = dir.ok_or_else(|| Failure::new("Slurm names no StateSaveLocation"))?;
    Ok(KeptFile::in_dir(Path::new(dir), FILE))
}

fn word(learnt: Option<Bandwidth>) -> &'static str {
    learnt.map_or("not known", Bandwidth::word)
}

fn text(rows: &[TrafficRow]) -> String {
    if rows.is_empty() {
        return "no completed job with several GPUs has traffic in sacct; docs/energy-and-usage.md, \"Traffic between GPUs\", says \
                what records it\n"
            .to_owned();
    }
    let heads = ["user", "jobs", "runs", "GB/s per GPU", "most", "bandwidth"];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    for row in rows {
        let most = row.rates.last().copied().unwrap_or(0);
        let (runs, median) = (row.rates.len().to_string(), gigabytes(row.median()));
        lines.push(vec![
            row.user.clone(),
            row.jobs(),
            runs,
            median,
            gigabytes(most),
            word(row.learnt).to_owned(),
        ]);
    }
    let mut text = table::render(&lines, &[2, 3, 4]);
    if rows.iter().any(|row| row.in_part && row.learnt.is_none()) {
        text += "Of some runs only NVLink or only PCIe was counted: such runs never count as insensitive. AccountingStorageTRES must have \
                 ic/nvlink and ic/pcie.\n";
    }
    text
}

fn as_json(row: &TrafficRow) -> serde_json::Value {
    json!({
        "uid": row.key.uid, "user": row.user, "jobs": row.jobs(), "runs": row.rates.len(), "median_bytes_s": row.median(),
        "most_bytes_s": row.rates.last(), "bandwidth": row.learnt.map(Bandwidth::word),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The line that sacct prints of a job or step with these cells, the name as bytes.
    fn line(cells: [&str; 8], name: &[u8]) -> Vec<u8> {
        let widths = [24].into_iter().chain(COLUMNS.map(|(_, width)| width));
        let mut line = Vec::new();
        for (cell, width) in cells.iter().map(|cell| cell.as_bytes()).chain([name]).zip(widths) {
            line.resize(line.len() + width - cell.len(), b' ');
            line.extend(cell);
            line.push(b' ');
        }
        line.push(b'\n');
        line
    }

    #[test]
    fn a_name_that_sacct_cuts_in_the_middle_of_a_letter_keeps_no_other_job_from_being_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sacct");
        let mut table = line(["9", "8", "eve", "COMPLETED", "9", "", "", ""], b"na\xc3");
        for id in 1..=3 {
            let step = format!("{id}.extern");
            table.extend(line(
                [&id.to_string(), "7", "bob", "COMPLETED", "1000", "gres/gpu=2", "", ""],
                b"train.sh",
            ));
            table.extend(line(
                [&step, "", "", "COMPLETED", "1000", "", "ic/nvlink=0,ic/pcie=9", ""],
                b"extern",
            ));
        }
        fs::write(&path, table).unwrap();
        let rows = programs_in(&path).unwrap().rows();
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((row.jobs().as_str(), row.learnt), ("train.sh on 2 GPUs", Some(Bandwidth::Insensitive)));
        fs::write(&path, "12|bob\n").unwrap();
        let why = programs_in(&path).err().unwrap().to_string();
        assert!(why.contains("the file must be what sacct -a -n -o JobIDRaw%24,UID%12,"), "{why}");
    }
}
