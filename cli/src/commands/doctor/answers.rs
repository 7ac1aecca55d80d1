//! Slurm's answers to doctor, each asked once.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use protocol::{SickGpu, Standing};

use plugin_stamp::said;
use slurm_tables::Version;

use super::accounting;
use super::findings::Findings;
use super::versions::Daemon;
use crate::commands::setup::SlurmConfFile;
use crate::slurm::command::run;
use crate::slurm::scontrol;

/// Slurm's answers, asked once.
pub(crate) struct SlurmAnswers {
    /// `scontrol show config`, by lower-case key.
    settings: HashMap<String, String>,
    /// Each node's `Gres`.
    pub(super) gres: HashMap<String, String>,
    /// Each node's published layout.
    pub(crate) layouts: HashMap<String, String>,
    /// How slurmctld judges what each node says of itself.
    pub(super) standings: HashMap<String, Standing>,
    pub(super) sick: HashMap<String, Vec<SickGpu>>,
    /// Each node's state, `IDLE+DRAIN`.
    pub(super) states: HashMap<String, String>,
    /// Why nodes take no jobs, as Slurm shows it.
    pub(super) reasons: HashMap<String, String>,
    /// The version of each node's slurmd.
    pub(super) slurmds: HashMap<String, Version>,
}

impl SlurmAnswers {
    pub(super) fn setting(&self, key: &str) -> &str {
        self.settings.get(key).map_or("", String::as_str)
    }

    /// Lists the directories where plugins are searched, in order.
    pub(super) fn plugin_dirs(&self) -> Vec<PathBuf> {
        self.setting("plugindir").split(':').filter(|d| !d.is_empty()).map(PathBuf::from).collect()
    }

    /// The files of our plugins for accounting that slurm.conf names.
    pub(super) fn accounting_files(&self) -> impl Iterator<Item = &'static str> {
        accounting::files(|key| self.setting_of(key))
    }

    /// A setting by its key in slurm.conf.
    pub(super) fn setting_of(&self, key: &str) -> &str {
        self.setting(&key.to_lowercase())
    }

    /// Tells whether `host`, without its domain, is the first machine that slurmctld may run on.
    pub(super) fn is_first_controller(&self, host: &str) -> bool {
        names(self.setting("slurmctldhost[0]"), host)
    }

    /// The daemons of this machine, `host` without its domain; slurmctld if there are none, as it decides.
    pub(super) fn daemons_here(&self, host: &str, node: Option<&str>) -> Vec<Daemon> {
        let slurmctld = said::of_release(self.setting("slurm_version")).ok();
        let slurmctld = slurmctld.map(|version| Daemon { name: "slurmctld".to_owned(), version });
        let mut hosts = self.settings.iter().filter(|(key, _)| key.starts_with("slurmctldhost["));
        let controls = hosts.any(|(_, value)| names(value, host));
        let slurmd = node.and_then(|node| Some((node, *self.slurmds.get(node)?)));
        let slurmd = slurmd.map(|(node, version)| Daemon { name: format!("slurmd of {node}"), version });
        let slurmctld = slurmctld.filter(|_| controls || slurmd.is_none());
        slurmctld.into_iter().chain(slurmd).collect()
    }

    /// The types of each node's GPUs.
    pub(super) fn gpu_types(&self) -> HashMap<String, Vec<String>> {
        self.gres.iter().map(|(node, gres)| (node.clone(), site_problems::gpu_types_in(gres))).collect()
    }

    /// The text of slurm.conf; `None` if it cannot be read on this machine.
    pub(super) fn slurm_conf(&self) -> Option<String> {
        fs::read_to_string(self.settings.get("slurm_conf")?).ok()
    }

    /// slurm.conf with all that it includes; `None` if it cannot be read on this machine.
    pub(super) fn slurm_conf_file(&self) -> Option<SlurmConfFile> {
        SlurmConfFile::read(Path::new(self.settings.get("slurm_conf")?))
    }

    /// The text of gres.conf in slurm.conf's directory; `None` if it cannot be read on this machine.
    pub(crate) fn gres_conf(&self) -> Option<String> {
        let slurm_conf = Path::new(self.settings.get("slurm_conf")?);
        fs::read_to_string(slurm_conf.with_file_name("gres.conf")).ok()
    }

    /// Tells whether slurmd on this node may ask NVML for its GPUs.
    pub(super) fn asks_nvml(&self, node: &str) -> bool {
        self.gres_conf().is_some_and(|text| site_config::AutoDetect::of(&text).asks_nvml(node))
    }
}

/// True if a `SlurmctldHost` is this machine, `host` without its domain.
fn names(value: &str, host: &str) -> bool {
    value.split(['(', '.']).next() == Some(host)
}

/// `None`, with a finding, where Slurm does not answer.
pub(crate) fn ask(findings: &mut Findings) -> Option<SlurmAnswers> {
    let answers = run("scontrol", &["show", "config"]).and_then(|config| Ok((config, scontrol::nodes()?)));
    match answers {
        Ok((config, nodes)) => {
            let (gres, layouts) = (scontrol::field_by_node(&nodes, "Gres="), scontrol::layouts_in(&nodes));
            let (standings, slurmds) = (scontrol::standings_in(&nodes), versions_in(&nodes));
            let sick = scontrol::sick_in(&nodes);
            let mut states = scontrol::field_by_node(&nodes, "State=");
            // Other fields stand behind it in its line.
            states
                .values_mut()
                .for_each(|line| *line = line.split(' ').next().unwrap_or_default().to_owned());
            let reasons = scontrol::field_by_node(&nodes, "Reason=");
            let settings = settings_in(&config);
            Some(SlurmAnswers { settings, gres, layouts, standings, sick, states, reasons, slurmds })
        }
        Err(e) => {
            findings.bad(format!("Slurm: {}", e.what()));
            None
        }
    }
}

fn settings_in(text: &str) -> HashMap<String, String> {
    let pair = |l: &str| l.split_once('=').map(|(k, v)| (k.trim().to_lowercase(), v.trim().to_owned()));
    text.lines().filter_map(pair).collect()
}

/// `Version=` of each node in `scontrol show nodes`.
fn versions_in(text: &str) -> HashMap<String, Version> {
    let (mut found, mut node) = (HashMap::new(), "");
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("NodeName", name)) => node = name,
            Some(("Version", version)) => {
                found.extend(said::of_release(version).ok().map(|version| (node.to_owned(), version)));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_of_a_machine_are_told() {
        let config = "SLURM_VERSION           = 24.11.5\nSlurmctldHost[0]        = head(10.0.0.1)\n";
        let nodes =
            "NodeName=n1 Arch=x86_64\n   NodeAddr=n1 NodeHostName=n1 Version=24.05.8\n\nNodeName=n2\n";
        let slurm = SlurmAnswers {
            settings: settings_in(config),
            gres: HashMap::new(),
            layouts: HashMap::new(),
            standings: HashMap::new(),
            sick: HashMap::new(),
            states: HashMap::new(),
            reasons: HashMap::new(),
            slurmds: versions_in(nodes),
        };
        let here = |host, node| {
            let told = |d: Daemon| format!("{} {}", d.name, d.version);
            slurm.daemons_here(host, node).into_iter().map(told).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(here("head", None), "slurmctld 24.11.5");
        assert_eq!(here("login", None), "slurmctld 24.11.5");
        assert_eq!(here("n1", Some("n1")), "slurmd of n1 24.05.8");
        assert_eq!(here("head", Some("n1")), "slurmctld 24.11.5, slurmd of n1 24.05.8");
        assert_eq!(here("n2", Some("n2")), "slurmctld 24.11.5", "its slurmd has not registered");
    }
}
