//! The command line.

use std::path::PathBuf;

use crate::core::POLICIES;

/// What happens to a process that uses more memory than it was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Overuse {
    /// Others get that much less.
    Charge,
    /// The process is also ended, if it is still so at the next look.
    End,
}

/// The node's task broker.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "tessera-broker", version)]
pub struct Options {
    /// Run directory of the node; sockets and state are in its folder `tasks`
    #[arg(long, value_name = "DIR")]
    pub run_dir: PathBuf,
    /// NVML's library
    #[arg(long, value_name = "LIBRARY", default_value = "libnvidia-ml.so.1")]
    pub nvml: PathBuf,
    /// Who chooses devices
    #[arg(long, value_name = "NAME", default_value = POLICIES[0], value_parser = clap::builder::PossibleValuesParser::new(POLICIES))]
    pub policy: String,
    /// What the context of a process takes on a device, MiB
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(0..=65536))]
    pub context_mib: u64,
    /// What happens to a process that uses more memory than it was promised
    #[arg(long, value_enum, default_value_t = Overuse::Charge)]
    pub overuse: Overuse,
    /// Append each decision to FILE, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Return when the broker answers
    #[arg(long)]
    pub daemon: bool,
    /// Serve, without a parent that restarts
    #[arg(long, hide = true)]
    pub serve: bool,
}

impl Options {
    /// The arguments of a broker that serves like this one.
    #[must_use]
    pub fn arguments(&self) -> Vec<std::ffi::OsString> {
        let overuse = if self.overuse == Overuse::End { "end" } else { "charge" };
        let context = self.context_mib.to_string();
        let named = [("--run-dir", self.run_dir.as_os_str()), ("--nvml", self.nvml.as_os_str())];
        let words = [("--policy", self.policy.as_str()), ("--context-mib", &context), ("--overuse", overuse)];
        let log = self.log.iter().map(|log| ("--log", log.as_os_str()));
        let all = named.into_iter().chain(words.map(|(name, word)| (name, word.as_ref()))).chain(log);
        all.flat_map(|(name, value)| [name.into(), value.to_owned()]).collect()
    }
}
