//! `tessera traffic`: what jobs send between their GPUs, and whether the next ones need good links.

mod learnt;

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::{Path, PathBuf};

use clap::Args;
use geometry::counted;
use learnt_bandwidth::FILE;
use plugin_rt::kept_file::{KeptFile, Readers};
use protocol::Bandwidth;
use serde_json::json;

use crate::clock::since;
use crate::files::read_text;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::render::{gigabytes, table};
use crate::site;
use crate::slurm::sacct::{self, Whose};
use crate::slurm::scontrol;
use learnt::{COLUMNS, TrafficRow};

/// Show how much jobs send between their GPUs, and learn which need good links
///
/// Counts completed jobs with several whole GPUs that ran for a minute or longer, if the site accounts ic/nvlink and ic/pcie. Jobs of
/// a user count as one program if they name the same application (--gpu-app), and else if they have the same name and number
/// of GPUs. A program is sensitive to bandwidth if each of its GPUs sends 0.5 GB/s or more: links then save 5 % of its time or
/// more. Insensitive needs three runs that all send less. With --write, slurmctld uses what was learnt for jobs that do not
/// say --gpu-bandwidth themselves.
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
    let lines = match &args.from {
        Some(path) => sacct::read_jobs_and_steps(read_text(path)?.as_bytes(), COLUMNS)?,
        None => sacct::jobs_and_steps(&Whose::All, args.since, COLUMNS)?,
    };
    let rows = learnt::rows(lines);
    let mut said = if args.json {
        format!("{:#}\n", json!(rows.iter().map(as_json).collect::<Vec<_>>()))
    } else {
        text(&rows)
    };
    if let Some(file) = target {
        let table = learnt::table(&rows);
        let path = file.path();
        write(&file, &table.to_string()).map_err(|e| {
            Failure::new(format!("cannot write {}: {e}", path.display()))
                .hint("run it as root or SlurmUser, on slurmctld's machine")
        })?;
        if !args.json {
            said += &format!("{}: {}\n", path.display(), counted(table.len() as u64, "row"));
        }
    }
    Ok(Outcome::ok(said))
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

/// Replaces the file as a whole, for the owner of its directory: slurmctld takes it from no other user.
fn write(file: &KeptFile, text: &str) -> io::Result<()> {
    file.keep(text.as_bytes(), Readers::All)?;
    let path = file.path();
    let dir = path.parent().map(fs::metadata).transpose()?;
    match dir {
        Some(dir) if fs::metadata(&path)?.uid() != dir.uid() => {
            lchown(&path, Some(dir.uid()), Some(dir.gid()))
        }
        _ => Ok(()),
    }
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
    table::render(&lines, &[2, 3, 4])
}

fn as_json(row: &TrafficRow) -> serde_json::Value {
    json!({
        "uid": row.key.uid, "user": row.user, "jobs": row.jobs(), "runs": row.rates.len(), "median_bytes_s": row.median(),
        "most_bytes_s": row.rates.last(), "bandwidth": row.learnt.map(Bandwidth::word),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurmctlds_user_can_read_what_root_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let file = KeptFile::in_dir(dir.path(), FILE);
        for text in ["one\n", "two\n", "two\n"] {
            write(&file, text).unwrap();
            assert_eq!(fs::read_to_string(file.path()).unwrap(), text);
        }
        let owner = fs::metadata(dir.path()).unwrap().uid();
        assert_eq!(fs::metadata(file.path()).unwrap().uid(), owner);
    }
}
