//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;

use crate::core::POLICIES;

/// Decides what happens to a process that uses more memory than it was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overuse {
    /// Others get that much less.
    Charge,
    /// The process is also ended, if it is still so at the next look.
    End,
}

/// The command line of a broker that starts or serves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Run directory of the node; sockets and state are in its folder `tasks`.
    pub run_dir: PathBuf,
    /// NVML's library.
    pub nvml: PathBuf,
    /// Name of the policy that chooses devices: one of [`POLICIES`].
    pub policy: String,
    /// Memory that the context of a process takes on a device, MiB.
    pub context_mib: u64,
    /// Treatment of a process that uses more memory than it was promised.
    pub overuse: Overuse,
    /// Each decision is appended here, one JSON object a line.
    pub log: Option<PathBuf>,
    /// True if the command returns when the broker answers.
    pub daemon: bool,
    /// True if the broker serves without a parent that restarts it.
    pub serve: bool,
}

/// Largest context of a process, MiB.
const CONTEXT_MIB: u64 = 65536;

/// Text of `--help`.
pub const HELP: &str = "\
The node's task broker

Usage: tessera-broker [OPTIONS] --run-dir <DIR>

Options:
      --run-dir <DIR>
          Run directory of the node; sockets and state are in its folder `tasks`

      --nvml <LIBRARY>
          NVML's library
          
          [default: libnvidia-ml.so.1]

      --policy <NAME>
          Who chooses devices
          
          [default: tessera]
          [possible values: tessera, alg3, alg2]

      --context-mib <MIB>
          What the context of a process takes on a device, MiB
          
          [default: 512]

      --overuse <OVERUSE>
          What happens to a process that uses more memory than it was promised

          Possible values:
          - charge: Others get that much less
          - end:    The process is also ended, if it is still so at the next look
          
          [default: charge]

      --log <FILE>
          Append each decision to FILE, one JSON object a line

      --daemon
          Return when the broker answers

  -h, --help
          Print help (see a summary with '-h')

  -V, --version
          Print version
";

/// The request of a command line.
#[derive(Clone, Debug)]
pub enum Asked {
    /// The text of `--help`.
    Help,
    /// The version.
    Version,
    /// A broker.
    Broker(Options),
}

/// Says why a command line is none of a broker.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// Not an option of the broker, or one without its value.
    #[error(transparent)]
    Form(#[from] lexopt::Error),
    /// A value that the option does not take.
    #[error("invalid value {value:?} for {option}: it takes {takes}")]
    Value {
        /// The option's name.
        option: &'static str,
        /// The value as written.
        value: OsString,
        /// Description of the values that the option takes.
        takes: String,
    },
    /// No run directory.
    #[error("--run-dir DIR is missing")]
    NoRunDir,
}

impl Asked {
    /// Reads a command line, without the program's name.
    ///
    /// # Errors
    ///
    /// An option that the broker does not have, one without a value, or a value that it does not take.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Asked, UsageError> {
        let mut run_dir = None;
        let mut options = Options {
            run_dir: PathBuf::new(),
            nvml: PathBuf::from("libnvidia-ml.so.1"),
            policy: POLICIES[0].to_owned(),
            context_mib: 512,
            overuse: Overuse::Charge,
            log: None,
            daemon: false,
            serve: false,
        };
        let mut words = lexopt::Parser::from_args(words);
        while let Some(word) = words.next()? {
            match word {
                Long("help") | Short('h') => return Ok(Asked::Help),
                Long("version") | Short('V') => return Ok(Asked::Version),
                Long("run-dir") => run_dir = Some(words.value()?.into()),
                Long("nvml") => options.nvml = words.value()?.into(),
                Long("policy") => options.policy = policy(words.value()?)?,
                Long("context-mib") => options.context_mib = context(words.value()?)?,
                Long("overuse") => options.overuse = overuse(words.value()?)?,
                Long("log") => options.log = Some(words.value()?.into()),
                Long("daemon") => options.daemon = true,
                Long("serve") => options.serve = true,
                _ => return Err(word.unexpected().into()),
            }
        }
        options.run_dir = run_dir.ok_or(UsageError::NoRunDir)?;
        Ok(Asked::Broker(options))
    }
}

/// Reads one of [`POLICIES`].
fn policy(value: OsString) -> Result<String, UsageError> {
    match value.to_str().filter(|name| POLICIES.contains(name)) {
        Some(name) => Ok(name.to_owned()),
        None => Err(UsageError::Value { option: "--policy", value, takes: POLICIES.join(", ") }),
    }
}

/// Reads a number of MiB, at most [`CONTEXT_MIB`].
fn context(value: OsString) -> Result<u64, UsageError> {
    let mib = value.to_str().and_then(|text| text.parse().ok()).filter(|mib| *mib <= CONTEXT_MIB);
    mib.ok_or(UsageError::Value { option: "--context-mib", value, takes: format!("0 to {CONTEXT_MIB}") })
}

/// Reads what happens at overuse.
fn overuse(value: OsString) -> Result<Overuse, UsageError> {
    match value.to_str() {
        Some("charge") => Ok(Overuse::Charge),
        Some("end") => Ok(Overuse::End),
        _ => Err(UsageError::Value { option: "--overuse", value, takes: "charge, end".to_owned() }),
    }
}

impl Options {
    /// The arguments of a broker that serves like this one.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let overuse = if self.overuse == Overuse::End { "end" } else { "charge" };
        let context = self.context_mib.to_string();
        let named = [("--run-dir", self.run_dir.as_os_str()), ("--nvml", self.nvml.as_os_str())];
        let words = [("--policy", self.policy.as_str()), ("--context-mib", &context), ("--overuse", overuse)];
        let log = self.log.iter().map(|log| ("--log", log.as_os_str()));
        let all = named.into_iter().chain(words.map(|(name, word)| (name, word.as_ref()))).chain(log);
        all.flat_map(|(name, value)| [name.into(), value.to_owned()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Asked, String> {
        Asked::parse(words.iter().map(OsString::from)).map_err(|e| e.to_string())
    }

    #[test]
    fn a_broker_is_started_again_with_what_it_was_started_with() {
        let words =
            "--run-dir /run/t --nvml=/lib/n.so --policy alg2 --context-mib 300 --overuse end --log /l";
        let Ok(Asked::Broker(options)) = parsed(&words.split(' ').collect::<Vec<_>>()) else {
            panic!("{words}");
        };
        assert!(!options.daemon && !options.serve);
        let Ok(Asked::Broker(again)) = Asked::parse(options.arguments()) else { panic!("{options:?}") };
        assert_eq!(format!("{options:?}"), format!("{again:?}"));
    }

    #[test]
    fn a_wrong_word_is_told_with_what_would_do() {
        for (words, why) in [
            (&[][..], "--run-dir DIR is missing"),
            (&["--run-dir"], "missing argument for option '--run-dir'"),
            (&["--run-dir", "/r", "--wat"], "invalid option '--wat'"),
            (
                &["--run-dir", "/r", "--policy", "sa"],
                "invalid value \"sa\" for --policy: it takes tessera, alg3, alg2",
            ),
            (&["--context-mib", "65537"], "invalid value \"65537\" for --context-mib: it takes 0 to 65536"),
            (&["--overuse", "kill"], "invalid value \"kill\" for --overuse: it takes charge, end"),
        ] {
            assert_eq!(parsed(words).unwrap_err(), why);
        }
    }

    #[test]
    fn the_help_names_what_the_defaults_are() {
        let Ok(Asked::Broker(options)) = parsed(&["--run-dir", "/r"]) else { panic!() };
        let defaults = [options.nvml.display().to_string(), options.policy, options.context_mib.to_string()];
        assert!(defaults.iter().all(|value| HELP.contains(&format!("[default: {value}]"))), "{defaults:?}");
        assert!(HELP.contains(&format!("[possible values: {}]", POLICIES.join(", "))));
    }
}
