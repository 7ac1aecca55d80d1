//! The directory of a calibration. Whatever is killed when, what stands in `runs.csv` was measured.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use plugin_rt::read_file::read_small;
use power_study::calibration::{Log, Setting};
use power_study::runs;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use super::campaign::Campaign;
use crate::files::own_dir::{own_dir, own_file};
use crate::files::{TABLE, write_text};
use crate::outcome::Failure;

const HEADER: &str = "state,cap_w,apps,seconds\n";

/// The most of a job's output that is read, to look for what Tessera says at its begin.
const OUTPUT: u64 = 65_536;

pub(super) struct Store {
    dir: PathBuf,
    /// By setting.
    pub(super) measured: Vec<bool>,
    /// Held while this process lives: two would measure the same.
    _lock: File,
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> Failure {
    let path = path.display().to_string();
    move |e| Failure::new(format!("{path}: {e}"))
}

impl Store {
    /// Opens or begins the directory.
    pub(super) fn open(campaign: &Campaign) -> Result<Self, Failure> {
        let dir = own_dir(&campaign.out).map_err(|e| {
            io(&campaign.out)(e).hint("name a directory with --out that only you may write to")
        })?;
        fs::create_dir_all(dir.join("work")).map_err(io(&dir))?;
        let path = dir.join("calibration.json");
        let lock = own_file(&dir.join("lock"), true).map_err(io(&dir.join("lock")))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Failure::new(format!("another `tessera lab power calibrate` works in {}", dir.display()))
        })?;
        let asked = identity(campaign);
        let before = read_if_there(&path)?.map(|text| serde_json::from_str::<Value>(&text));
        let mut store = Self { dir, measured: vec![false; campaign.settings.len()], _lock: lock };
        store.read(campaign)?;
        if let Some(before) = before {
            let before = before.map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
            if let Some(other) = store.difference(campaign, &before, &asked) {
                let what = format!("{} has a calibration of {other}", store.dir.display());
                return Err(Failure::new(what).hint("name another directory with --out"));
            }
        }
        write_text(&path, &format!("{asked:#}\n"))?;
        write_text(&store.dir.join("counters.csv"), &counters(campaign))?;
        Ok(store)
    }

    /// Describes how an earlier measurement here differs, if it cannot be gone on with. The command of an application that is not measured
    /// yet may change.
    fn difference(&self, campaign: &Campaign, before: &Value, asked: &Value) -> Option<String> {
        for key in ["node", "gpu", "caps_w"] {
            if before[key] != asked[key] {
                return Some(format!("{key} {}, not {}", before[key], asked[key]));
            }
        }
        let list = |value: &Value| value["apps"].as_array().cloned().unwrap_or_default();
        let (old, new) = (list(before), list(asked));
        let names = |list: &[Value]| list.iter().map(|app| app["app"].clone()).collect::<Vec<_>>();
        if names(&old) != names(&new) {
            return Some("other applications, or in another order".to_owned());
        }
        let is_measured = |app: usize| {
            campaign.settings.iter().zip(&self.measured).any(|(s, m)| *m && s.apps.contains(&app))
        };
        let changed =
            (0..new.len()).find(|app| old[*app]["command"] != new[*app]["command"] && is_measured(*app));
        changed.map(|app| format!("{} by another command, {}", new[app]["app"], old[app]["command"]))
    }

    pub(super) fn runs_file(&self) -> PathBuf {
        self.dir.join("runs.csv")
    }

    /// Learns what was measured. A line without its end was being written when somebody was killed.
    fn read(&mut self, campaign: &Campaign) -> Result<(), Failure> {
        let path = self.runs_file();
        let text = read_if_there(&path)?.unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        if whole.is_empty() {
            return write_text(&path, HEADER);
        }
        if whole.len() < text.len() {
            write_text(&path, whole)?;
        }
        let known = runs::parse_on(campaign.gpu, &path.display().to_string(), whole);
        for run in known.map_err(|e| Failure::of(&e))? {
            let is_it = |setting: &Setting| setting.is_of(&run, &campaign.apps);
            if let Some(at) = campaign.settings.iter().position(is_it) {
                self.measured[at] = true;
            }
        }
        Ok(())
    }

    /// Keeps what a setting's applications take, seconds.
    pub(super) fn keep(&mut self, campaign: &Campaign, at: usize, seconds: &[f64]) -> Result<(), Failure> {
        let setting = &campaign.settings[at];
        let seconds: Vec<String> = seconds.iter().map(|s| format!("{s:.4}")).collect();
        let (state, watts, names) = (&setting.state, setting.cap.watts(), campaign.names(setting));
        let line = format!("{state},{watts},{names},{}\n", seconds.join("+"));
        let path = self.runs_file();
        let mut file = OpenOptions::new().append(true).open(&path).map_err(io(&path))?;
        file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(io(&path))?;
        self.measured[at] = true;
        Ok(())
    }

    /// The attempts at a setting that were begun, oldest first.
    pub(super) fn attempts(&self, at: usize) -> Vec<Attempt> {
        let dirs = (1..).map(|n| self.dir.join("work").join(format!("{at:04}-{n}")));
        dirs.take_while(|dir| dir.is_dir()).map(Attempt).collect()
    }

    /// Begins another attempt.
    pub(super) fn attempt(&self, at: usize) -> Result<Attempt, Failure> {
        let n = self.attempts(at).len() + 1;
        let dir = self.dir.join("work").join(format!("{at:04}-{n}"));
        fs::create_dir(&dir).map_err(io(&dir))?;
        Ok(Attempt(dir))
    }

    /// The driver that the references were measured under, if their jobs could tell.
    pub(super) fn driver(&self) -> Option<String> {
        let said = |at: usize| {
            let attempts = self.attempts(at);
            attempts.into_iter().rev().find_map(|a| read_small(&a.0.join("driver"), TABLE).ok())
        };
        let word = (0..self.measured.len()).map_while(said).next()?.trim().to_owned();
        (!word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == '.')).then_some(word)
    }
}

/// The directory of one attempt at a setting: its jobs, their laps and output.
pub(super) struct Attempt(pub(super) PathBuf);

impl Attempt {
    /// Notes a job that was submitted, and the GPU that it is for.
    pub(super) fn note(&self, gpu: u16, job: u32) -> Result<(), Failure> {
        let path = self.0.join("jobs");
        let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(io(&path))?;
        file.write_all(format!("{gpu} {job}\n").as_bytes()).map_err(io(&path))
    }

    /// The noted jobs with their GPU.
    pub(super) fn jobs(&self) -> Vec<(u16, u32)> {
        let text = read_small(&self.0.join("jobs"), TABLE).unwrap_or_default();
        let one = |line: &str| {
            let (gpu, job) = line.split_once(' ')?;
            Some((gpu.parse().ok()?, job.parse().ok()?))
        };
        text.split_inclusive('\n').filter_map(|line| one(line.strip_suffix('\n')?)).collect()
    }

    /// Reads the output of each of its jobs.
    pub(super) fn logs(&self, sides: usize) -> Vec<Log> {
        let read = |side: usize| read_small(&self.0.join(format!("{side}.laps")), TABLE).unwrap_or_default();
        (0..sides).map(|side| Log::parse(&read(side))).collect()
    }

    /// The begin of a job's output.
    pub(super) fn output(&self, side: usize) -> String {
        let mut bytes = Vec::new();
        let file = File::open(self.output_file(side));
        // What was read counts also where the rest cannot be.
        let _ = file.and_then(|file| file.take(OUTPUT).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(super) fn output_file(&self, side: usize) -> PathBuf {
        self.0.join(format!("{side}.out"))
    }

    /// True if its jobs were told to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.0.join("stop").exists()
    }

    /// Tells its jobs to end after the run that they are in.
    pub(super) fn stop(&self) {
        // A job that is not told ends by its time limit.
        let _ = fs::write(self.0.join("stop"), "");
    }
}

/// Lists the settings that must be the same for runs to be of one calibration.
fn identity(campaign: &Campaign) -> Value {
    let apps: Vec<_> =
        campaign.apps.iter().map(|app| json!({ "app": app.name, "command": app.command })).collect();
    let caps: Vec<u32> = campaign.caps.iter().map(|cap| cap.watts()).collect();
    json!({ "gpu": campaign.gpu.key, "node": campaign.node, "caps_w": caps, "apps": apps })
}

/// The applications' lines of the counters, of this GPU model.
fn counters(campaign: &Campaign) -> String {
    let mut out = "app,gpu,source,f1,f2,f3,f4,f5,f6,f7,f8\n".to_owned();
    for app in &campaign.apps {
        for (gpu, source, counters) in campaign.counters.of_app(&app.name) {
            if gpu == campaign.gpu.key {
                let f = counters.map(|f| f.map_or_else(String::new, |f| f.to_string())).join(",");
                out += &format!("{},{gpu},{source},{f}\n", app.name);
            }
        }
    }
    out
}

/// A file of the calibration; `None` before it is begun. One that cannot be read must not be begun anew.
fn read_if_there(path: &Path) -> Result<Option<String>, Failure> {
    match read_small(path, TABLE) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io(path)(e)),
    }
}
