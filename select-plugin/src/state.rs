//! The plugin's state between hooks, and the decision whether it places jobs at all: it does if there is a configuration and
//! the running Slurm's structs are those that it was built with.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use decision_counts::decisions::Placing;
use node_layout::ConfigInForce;
use shared_pages::decisions;
use slurm_tables::Version;
use slurmctld_rt::spank_env::BadEnv;

use crate::engine::Engine;
use crate::memory::Memory;
use crate::reminder::Reminder;
use crate::site::{Reading, Site, WAITING_PARENT};
use crate::structs::{Structs, Verdict, complaint};

/// State between hooks. Before a configuration is read there is none.
pub(crate) struct State {
    /// `None`: it only forwards, because there is no configuration or the structs do not fit.
    memory: Option<Memory>,
    /// There is no `tessera.toml`: only what an earlier one has left is taken away.
    unconfigured: bool,
    structs: Structs,
    /// Says again what keeps the plugin from its work.
    reminder: Reminder,
    /// `SLURM_VERSION_NUMBER` of the Slurm that the plugin was built for.
    built_for: u32,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

pub(crate) fn lock() -> MutexGuard<'static, Option<State>> {
    // A panic while it was held has been logged by the guard; every change of the state is a single step.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

static SITE: Mutex<Site> = Mutex::new(Site::new());

fn site() -> MutexGuard<'static, Site> {
    // A panic while it was held has been logged; it is replaced in single steps.
    SITE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the configuration beside slurm.conf and, if it is new, starts from an empty state. `saved` is slurmctld's directory. Tells
/// whether it is the one that the state is of.
pub(crate) fn configure(slurm_conf: &Path, saved: Option<&str>, built_for: u32) -> bool {
    if let Some(dir) = saved {
        decisions::begin(dir);
    }
    let reading = site().read(slurm_conf, saved.map(Path::new));
    let same = lock().as_mut().and_then(State::memory).is_some_and(|memory| is_of(memory, &reading));
    if !same {
        set(reading, built_for);
    }
    same
}

/// Tells whether the state of all running jobs is of this configuration.
fn is_of(memory: &Memory, reading: &Reading) -> bool {
    let Reading::New(config) = reading else { return false };
    memory.is_rebuilt_from_file() && memory.engine.site() == &**config
}

/// Shows commands and the exporter that slurmctld lacks what the plugin needs. `saved` is slurmctld's directory.
pub(crate) fn say_other_slurm(saved: Option<&str>) {
    if let Some(dir) = saved {
        decisions::begin(dir);
        decisions::say_placing(Placing::OtherSlurm);
    }
}

/// Tells `tessera doctor` how much is kept, and that this process places jobs: one that was to take over from it, and failed, has said
/// the same of itself.
pub(crate) fn say_kept(memory: &Memory) {
    decisions::say_placing(placing(Some(&memory.engine)));
    memory.kept().for_each(|(what, counts)| decisions::say_kept(what, counts));
}

/// Describes the file's error in a process that is to take over from a slurmctld that goes on if it fails.
pub(crate) fn bad_at_reconfiguration() -> Option<String> {
    std::env::var(WAITING_PARENT).ok().and_then(|_| site().bad().map(str::to_owned))
}

/// Sets or replaces the configuration; the state is empty until it is rebuilt.
fn set(reading: Reading, built_for: u32) {
    let engine = match reading {
        Reading::New(config) => Some(Engine::new(*config)),
        Reading::Missing => None,
        // What is in memory is that version, with the state it has.
        Reading::Bad(kept) => match lock().as_mut().and_then(State::memory) {
            Some(memory) => return memory.engine.is_last_good(),
            None => Some(*kept),
        },
    };
    decisions::say_placing(placing(engine.as_ref()));
    *lock() = Some(State::new(engine, built_for));
}

fn placing(engine: Option<&Engine>) -> Placing {
    match engine.map(Engine::version) {
        None => Placing::NoFile,
        Some(ConfigInForce::Bad) => Placing::BadFile,
        Some(_) => Placing::On,
    }
}

impl State {
    fn new(engine: Option<Engine>, built_for: u32) -> Self {
        let (structs, reminder) = (Structs::default(), Reminder::default());
        Self { unconfigured: engine.is_none(), memory: engine.map(Memory::new), structs, reminder, built_for }
    }

    /// The memory, if jobs are placed.
    pub(crate) fn memory(&mut self) -> Option<&mut Memory> {
        self.memory.as_mut()
    }

    /// Tells whether there is no `tessera.toml`.
    pub(crate) fn is_unconfigured(&self) -> bool {
        self.unconfigured
    }

    /// Tells whether jobs are placed. Reminds of it, once a minute, if the structs keep the plugin from that. `now`: seconds since 1970.
    pub(crate) fn places_jobs(&mut self, now: u64) -> bool {
        if self.structs.differ() {
            self.say_structs_differ(now);
        }
        self.memory.is_some()
    }

    /// Tells whether a job's record is as it is known here, by a look at that record and, before it is known, at the node table. If
    /// it is found that they are not, nothing is placed any more: see [`Structs`].
    pub(crate) fn fits(
        &mut self,
        now: u64,
        is_marked: impl FnOnce() -> bool,
        carefully: impl FnOnce() -> Result<bool, String>,
    ) -> bool {
        let memory = &mut self.memory;
        let ours = || {
            let memory = memory.take();
            memory.iter().flat_map(|m| m.engine.node_names()).map(str::to_owned).collect()
        };
        let verdict = self.structs.judge(is_marked, carefully, ours);
        if verdict == Verdict::Differ {
            decisions::say_placing(Placing::OtherSlurm);
            self.say_structs_differ(now);
        }
        verdict == Verdict::Usable
    }

    fn say_structs_differ(&mut self, now: u64) {
        let (slurm, structs) = (self.built_for, &self.structs);
        self.reminder
            .say(now, &|| complaint(&Version(slurm).to_string(), structs.difference().unwrap_or_default()));
    }

    /// Takes the nodes that have yet to show that placement is off; `None`: it is not, for that reason.
    pub(crate) fn take_unshown(&mut self) -> Option<Vec<String>> {
        self.structs.take_unshown()
    }

    /// Says which job does not start because of its environment.
    pub(crate) fn say_held_back(&mut self, now: u64, job: u32, why: &BadEnv) {
        self.reminder.say(now, &|| {
            format!("select plugin: job {job} does not start, because it would drain its nodes: {why}")
        });
    }
}

#[cfg(test)]
mod tests {
    use site_config::SiteConfig;

    use super::*;

    const FILE: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n";

    fn config(file: &str) -> SiteConfig {
        let (config, errors) = site_config::parse("t", file, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        config.unwrap()
    }

    fn configured() -> State {
        State::new(Some(Engine::new(config(FILE))), 0x16_0508)
    }

    #[test]
    fn a_file_that_says_the_same_leaves_the_state_as_it_is() {
        let mut memory = Memory::new(Engine::new(config(FILE)));
        let new = |file: &str| Reading::New(Box::new(config(file)));
        assert!(!is_of(&memory, &new(FILE)), "it does not know all jobs yet");
        memory.rebuilt = true;
        assert!(is_of(&memory, &new(&format!("# more words\n{FILE}"))));
        assert!(!is_of(&memory, &new(&format!("{FILE}keep_uncut = 1\n"))));
        assert!(!is_of(&memory, &Reading::Missing));
        // The file was bad meanwhile, and the nodes' layouts say so.
        memory.engine.is_last_good();
        assert!(!is_of(&memory, &new(FILE)));
    }

    #[test]
    fn nothing_is_placed_once_the_structs_are_known_to_differ() {
        let mut state = configured();
        assert!(state.places_jobs(0) && state.take_unshown().is_none());
        assert!(!state.fits(0, || true, || Err("odd".to_owned())));
        assert!(!state.places_jobs(0) && !state.fits(0, || true, || Ok(true)));
        assert_eq!(state.take_unshown(), Some(vec!["n1".to_owned()]));
    }

    #[test]
    fn one_odd_record_turns_nothing_off() {
        let mut state = configured();
        assert!(state.fits(0, || true, || Ok(true)) && !state.fits(0, || false, || Ok(true)));
        assert!(state.places_jobs(0) && !state.is_unconfigured());
    }

    #[test]
    fn without_a_file_nothing_is_placed() {
        let mut state = State::new(None, 0);
        assert!(state.is_unconfigured() && !state.places_jobs(0));
    }
}
