//! Tells slurmctld that this node's slurmd loads Tessera, and with which `tessera.toml`: it gives no jobs with `--gpu` options to
//! other nodes.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use error_chain::with_causes;
use gpu_node::node_extra::{say, slurmd_started};
use gpu_node::{NodeInSlurm, SAVED_AFTER};
use node_jobs::loaded::{self, Loaded};
use node_slurm::slurm_conf;
use protocol::Said;
use site_config::SiteConfig;

/// The longest pause between two questions to slurmctld.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Tells whether a slurmd that loads Tessera runs on this node.
pub(super) fn slurmd_loads_us(name: &str) -> bool {
    let env = |name: &str| std::env::var(name).ok();
    loaded::read(&loaded::path(&slurm_conf::path(&env), name)).is_some()
}

/// A node's word to slurmctld.
pub(super) struct Word {
    name: String,
    state_dir: PathBuf,
    /// The fingerprint of its file.
    file: u64,
    /// Jobs may have instances of its GPUs.
    makes_instances: bool,
    note: PathBuf,
    /// The slurmd that it is about; `None`: none that loads Tessera runs.
    held: Option<Loaded>,
}

impl Word {
    /// The word of the node `name`; `None`: the file does not describe it.
    pub(super) fn of(config: &SiteConfig, name: &str) -> Option<Self> {
        let env = |name: &str| std::env::var(name).ok();
        let note = loaded::path(&slurm_conf::path(&env), name);
        let held = loaded::read(&note);
        let state_dir = node_jobs::Settings::of(config, name).node.state_dir;
        let spec = config.node(name)?;
        let makes_instances = (0..spec.gpus.len()).any(|gpu| crate::site::makes_instances(spec, gpu));
        let file = config.fingerprint_of(spec);
        Some(Self { name: name.to_owned(), state_dir, file, makes_instances, note, held })
    }

    /// The note, while the same slurmd runs: the next one speaks for itself.
    fn held(&self) -> Option<Loaded> {
        let before = self.held?;
        loaded::read(&self.note).filter(|now| now.is_of(&before))
    }

    /// True if slurmctld has another file's fingerprint, or none: slurmd was started while there was no good file.
    pub(super) fn is_news(&self) -> bool {
        self.held().is_some_and(|held| held.told.is_none_or(|told| told != self.said(held, told.started)))
    }

    fn said(&self, held: Loaded, started: u64) -> Said {
        Said::of(started, self.file, held.detects && self.makes_instances)
    }

    /// Says it once; what was done, as a line.
    pub(super) fn say(&self) -> String {
        let Some(held) = self.held() else {
            return format!(
                "problem: the slurmd of {} does not load Tessera: no jobs with --gpu options start here; restart it with \
                 spank_tessera.so in plugstack.conf\n",
                self.name
            );
        };
        match slurmd_started(&self.slurm()) {
            Ok(Some(started)) => self.tell(held, started),
            Ok(None) => format!("problem: {} has not registered with slurmctld\n", self.name),
            Err(e) => self.untold(&e),
        }
    }

    /// Says it as soon as slurmd has registered, and again if slurmctld has forgotten it. Ends when slurmd does.
    pub(super) fn say_when_registered(&self) -> String {
        let mut pause = Duration::from_millis(250);
        while let Some(held) = self.held() {
            if let Ok(Some(started)) = slurmd_started(&self.slurm())
                && started >= held.since
            {
                return self.tell(held, started);
            }
            sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        String::new()
    }

    /// Says it again a while later: a slurmctld that was killed meanwhile has forgotten it, and a slurmd that was quickly restarted
    /// may have registered only now. If the node has said something else since, with a newer file, that stands.
    pub(super) fn say_again(&self) -> String {
        sleep(SAVED_AFTER);
        if self.said_otherwise() { String::new() } else { self.say_when_registered() }
    }

    /// True if slurmctld was told of another file since, by the same slurmd's node.
    fn said_otherwise(&self) -> bool {
        self.held().is_some_and(|held| held.told.is_some_and(|told| told != self.said(held, told.started)))
    }

    fn slurm(&self) -> NodeInSlurm<'_> {
        NodeInSlurm::new(&self.name, &self.state_dir, std::env::var("SLURM_CONF").ok())
    }

    fn tell(&self, held: Loaded, started: u64) -> String {
        let said = self.said(held, started);
        match say(&self.slurm(), said) {
            Ok(new) => {
                if held.told != Some(said) {
                    let _said_again_by_the_health_check = loaded::tell(&self.note, &held, said);
                }
                if new {
                    format!("{}: slurmctld knows that it loads Tessera\n", self.name)
                } else {
                    String::new()
                }
            }
            Err(e) => self.untold(&e),
        }
    }

    fn untold(&self, why: &dyn std::error::Error) -> String {
        format!("problem: slurmctld cannot be told that {} loads Tessera: {}\n", self.name, with_causes(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_word_than_its_own_stands() {
        let dir = tempfile::tempdir().unwrap();
        let note = dir.path().join("note");
        loaded::hold(&note, true).unwrap();
        let held = loaded::read(&note);
        let (name, state_dir) = ("n1".to_owned(), PathBuf::new());
        let word = Word { name, state_dir, file: 7, makes_instances: true, note, held };
        assert!(!word.said_otherwise(), "nothing was said yet");
        for (file, stands) in [(7, false), (8, true)] {
            loaded::tell(&word.note, &held.unwrap(), Said::of(5, file, true)).unwrap();
            assert_eq!(word.said_otherwise(), stands, "{file}");
        }
    }
}
