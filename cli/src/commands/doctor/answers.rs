//! Slurm's answers to doctor, each asked once.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use protocol::{SickGpu, Standing};

use node_slurm::slurm_conf;
use plugin_stamp::said;
use slurm_tables::Version;

use super::accounting;
use super::findings::Findings;
use super::versions::Daemon;
use crate::commands::setup::SlurmConfFile;
use crate::slurm::command::run;
use crate::slurm::scontrol;

/// Slurm's answers, asked once.
#[derive(Default)]
pub(crate) struct SlurmAnswers {
    /// `scontrol show config`, by lower-case key.
    settings: HashMap<String, String>,
    /// The slurm.conf that Slurm reads on this machine; `None` if it is not here as a file.
    pub(super) conf_here: Option<PathBuf>,
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

    /// Tells whether slurmctld may run on `host`, a name without its domain.
    fn is_controller(&self, host: &str) -> bool {
        let mut hosts = self.settings.iter().filter(|(key, _)| key.starts_with("slurmctldhost["));
        hosts.any(|(_, value)| names(value, host))
    }

    /// The parts of Slurm on this machine, `host` without its domain, that load plugins: its daemons, or else its commands.
    pub(super) fn daemons_here(
        &self,
        host: &str,
        node: Option<&str>,
        commands: impl Fn() -> Option<Version>,
    ) -> Vec<Daemon> {
        let daemon = |name: &str, version| Daemon { name: name.to_owned(), version };
        let mut daemons = Vec::new();
        if self.is_controller(host) {
            let version = said::of_release(self.setting("slurm_version")).ok();
            daemons.extend(version.map(|version| daemon("slurmctld", version)));
        }
        let slurmd = node.and_then(|node| Some((node, self.slurmds.get(node)?)));
        daemons.extend(slurmd.map(|(node, version)| daemon(&format!("slurmd of {node}"), *version)));
        if daemons.is_empty() {
            daemons.extend(commands().map(|version| daemon("Slurm on this machine", version)));
        }
        daemons
    }

    /// Tells whether the files beside this machine's slurm.conf, `host` without its domain, are those of every node: slurmctld sends
    /// them.
    pub(super) fn has_files_of_all(&self, host: &str) -> bool {
        let is_sent = self.conf_here.as_deref() == Some(Path::new(slurm_conf::SENT));
        let parameters = self.setting_of("SlurmctldParameters");
        let sends = || parameters.split(',').any(|one| one.trim().eq_ignore_ascii_case("enable_configless"));
        is_sent || self.is_controller(host) && sends()
    }

    /// The types of each node's GPUs.
    pub(super) fn gpu_types(&self) -> HashMap<String, Vec<String>> {
        self.gres.iter().map(|(node, gres)| (node.clone(), site_problems::gpu_types_in(gres))).collect()
    }

    /// The text of slurm.conf; `None` if it cannot be read on this machine.
    pub(super) fn slurm_conf(&self) -> Option<String> {
        fs::read_to_string(self.conf_here.as_ref()?).ok()
    }

    /// slurm.conf with all that it includes; `None` if it cannot be read on this machine.
    pub(super) fn slurm_conf_file(&self) -> Option<SlurmConfFile> {
        SlurmConfFile::read(self.conf_here.as_deref()?)
    }

    /// The text of gres.conf in slurm.conf's directory; `None` if it cannot be read on this machine.
    pub(crate) fn gres_conf(&self) -> Option<String> {
        self.beside_slurm_conf("gres.conf")
    }

    /// The text of a file in slurm.conf's directory; `None` if it cannot be read on this machine.
    pub(super) fn beside_slurm_conf(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.conf_here.as_ref()?.with_file_name(name)).ok()
    }

    /// Tells whether slurmd on this node may ask NVML for its GPUs.
    pub(super) fn asks_nvml(&self, node: &str) -> bool {
        self.gres_conf().is_some_and(|text| slurm_files::AutoDetect::of(&text).asks_nvml(node))
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
            let conf_here = conf_here(&settings, &|name| env::var(name).ok());
            Some(SlurmAnswers {
                settings,
                conf_here,
                gres,
                layouts,
                standings,
                sick,
                states,
                reasons,
                slurmds,
            })
        }
        Err(e) => {
            findings.bad(format!("Slurm: {}", e.what()));
            None
        }
    }
}

/// Finds the slurm.conf of this machine: that of `SLURM_CONF`, else the file where slurmctld has its own, else where Slurm looks. slurmctld
/// shows its own path, and a node to which it sends the file has nothing there.
fn conf_here(settings: &HashMap<String, String>, env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let named = env("SLURM_CONF").filter(|path| !path.is_empty()).map(PathBuf::from);
    let slurmctlds = || settings.get("slurm_conf").map(PathBuf::from).filter(|path| path.is_file());
    let path = named.or_else(slurmctlds).unwrap_or_else(|| slurm_conf::path(env));
    path.is_file().then_some(path)
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
impl SlurmAnswers {
    /// Makes answers with these settings alone, as `scontrol show config` shows them.
    pub(super) fn of_config(config: &str) -> Self {
        Self { settings: settings_in(config), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_of_a_machine_are_told() {
        let config = "SLURM_VERSION           = 24.11.5\nSlurmctldHost[0]        = head(10.0.0.1)\n";
        let nodes =
            "NodeName=n1 Arch=x86_64\n   NodeAddr=n1 NodeHostName=n1 Version=24.05.8\n\nNodeName=n2\n";
        let slurm = SlurmAnswers { slurmds: versions_in(nodes), ..SlurmAnswers::of_config(config) };
        let here = |host, node| {
            let told = |d: Daemon| format!("{} {}", d.name, d.version);
            let commands = || said::of_release("24.11.4").ok();
            slurm.daemons_here(host, node, commands).into_iter().map(told).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(here("head", None), "slurmctld 24.11.5");
        // Commands load plugins of their own version, whatever slurmctld is.
        assert_eq!(here("login", None), "Slurm on this machine 24.11.4");
        assert_eq!(here("n1", Some("n1")), "slurmd of n1 24.05.8");
        assert_eq!(here("head", Some("n1")), "slurmctld 24.11.5, slurmd of n1 24.05.8");
        assert_eq!(here("n2", Some("n2")), "Slurm on this machine 24.11.4", "its slurmd has not registered");
    }

    #[test]
    fn slurmctlds_path_is_not_this_machines_if_no_file_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let (own, other) = (dir.path().join("slurm.conf"), dir.path().join("other.conf"));
        fs::write(&own, "").unwrap();
        let settings = |path: &Path| settings_in(&format!("SLURM_CONF = {}\n", path.display()));
        let here = |of_slurmctld: &Path, named: Option<&Path>| {
            let env =
                |name: &str| named.filter(|_| name == "SLURM_CONF").map(|path| path.display().to_string());
            conf_here(&settings(of_slurmctld), &env)
        };
        assert_eq!(here(&own, None), Some(own.clone()));
        assert_eq!(here(&other, Some(&own)), Some(own.clone()), "SLURM_CONF comes first");
        assert_eq!(here(&own, Some(&other)), None);
        assert_ne!(here(&other, None), Some(other), "slurmctld sends its files to this machine");
    }
}
