//! The arguments of our line in `plugstack.conf`.
//!
//! ```text
//! required /usr/lib/tessera/spank_tessera.so config=/etc/slurm/tessera.toml rename=gpu-mem:site-gpu-mem notice=off
//! ```

use std::path::PathBuf;

use job_options::{Renames, Spec};

/// Slurm's limit on an option's name (`SPANK_OPTION_MAXLEN`).
const MAX_NAME: usize = 75;

/// Arguments that the site set in plugstack.conf.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Args {
    /// `config=PATH`: the node side's `tessera.toml`, where it is not in its usual place.
    pub(crate) config: Option<PathBuf>,
    /// `tessera=PATH`: the command that reconciles the node when slurmd starts.
    pub(crate) tessera: PathBuf,
    /// `notice=off`: no line in a step's stderr about what it got.
    pub(crate) notice: bool,
    /// `options=off`: the submitting commands do not know our options, and only the work on the nodes goes on. For the time
    /// in which Tessera is uninstalled.
    pub(crate) options: bool,
    /// `env=NAME=VALUE`: variables for the node side's driver and programs, `%n` in them as written. Slurm starts
    /// prolog and epilog with an environment of its own, without anything of slurmd's.
    pub(crate) env: Vec<(String, String)>,
    /// `rename=gpu-mem:site-gpu-mem`: the site's names for our options.
    pub(crate) renames: Renames,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            config: None,
            tessera: PathBuf::from("/usr/bin/tessera"),
            notice: true,
            options: true,
            env: Vec::new(),
            renames: Renames::new(),
        }
    }
}

impl Args {
    /// Reads all arguments. Those that are wrong are left out and described, one line each.
    pub(crate) fn parse<'a>(args: impl IntoIterator<Item = &'a str>) -> (Self, Vec<String>) {
        let mut out = Self::default();
        let mut problems = Vec::new();
        for arg in args {
            if let Err(why) = out.take(arg) {
                problems.push(format!("plugstack.conf: {arg}: {why}"));
            }
        }
        (out, problems)
    }

    fn take(&mut self, arg: &str) -> Result<(), &'static str> {
        match arg.split_once('=') {
            Some(("config", path)) => self.config = Some(absolute(path)?),
            Some(("tessera", path)) => self.tessera = absolute(path)?,
            Some(("notice", "on")) => self.notice = true,
            Some(("notice", "off")) => self.notice = false,
            Some(("notice", _)) => return Err("expected on or off"),
            Some(("options", "on")) => self.options = true,
            Some(("options", "off")) => self.options = false,
            Some(("options", _)) => return Err("expected on or off"),
            Some(("env", pair)) => self.env.push(variable(pair)?),
            Some(("rename", pair)) => self.rename(pair)?,
            _ => return Err("unknown; known are config=, tessera=, notice=, options=, env= and rename="),
        }
        Ok(())
    }

    fn rename(&mut self, pair: &str) -> Result<(), &'static str> {
        let (ours, theirs) = pair.split_once(':').ok_or("expected rename=OURS:YOURS")?;
        let spec = Spec::by_name(ours).ok_or("there is no such option to rename")?;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if theirs.is_empty()
            || theirs.len() > MAX_NAME
            || !theirs.bytes().all(plain)
            || theirs.starts_with('-')
        {
            return Err("the new name must be lower-case letters, digits and dashes");
        }
        let taken = |s: &Spec| s.opt != spec.opt && self.name_of(s) == theirs;
        if Spec::all_and_old().any(taken) {
            return Err("another option already has this name");
        }
        self.renames.insert(spec.opt, theirs.to_owned());
        Ok(())
    }

    /// The variables of `env=` on the node of this name.
    pub(crate) fn env_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (&'a str, String)> {
        self.env.iter().map(move |(name, value)| (name.as_str(), value.replace("%n", node)))
    }

    /// Lists the options with their positions in [`Spec::all_and_old`]. A site may have given one its old name, which counts once.
    pub(crate) fn options(&self) -> impl Iterator<Item = (u8, &'static Spec)> {
        let is_new = |spec: &Spec| !spec.is_old() || self.name_of(spec.opt.spec()) != spec.name;
        (0..).zip(Spec::all_and_old()).filter(move |(_, spec)| is_new(spec))
    }

    /// The name under which this site shows an option, without dashes. Old names are not renamed.
    pub(crate) fn name_of<'a>(&'a self, spec: &'a Spec) -> &'a str {
        if spec.is_old() {
            return spec.name;
        }
        self.renames.get(&spec.opt).map_or(spec.name, String::as_str)
    }
}

/// `NAME=VALUE`. What Slurm itself tells us cannot be replaced.
fn variable(pair: &str) -> Result<(String, String), &'static str> {
    let (name, value) = pair.split_once('=').ok_or("expected env=NAME=VALUE")?;
    let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    if name.is_empty() || !name.bytes().all(plain) {
        return Err("the name must be upper-case letters, digits and _");
    }
    if name.starts_with("SLURM") || name.starts_with("SPANK") {
        return Err("Slurm's own variables cannot be set");
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn absolute(path: &str) -> Result<PathBuf, &'static str> {
    if path.starts_with('/') { Ok(PathBuf::from(path)) } else { Err("expected an absolute path") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use job_options::Opt;

    #[test]
    fn reads_what_it_knows() {
        let (args, problems) = Args::parse([
            "config=/c/tessera.toml",
            "tessera=/opt/bin/tessera",
            "notice=off",
            "options=off",
            "env=PATH=/opt/%n/bin:/usr/bin",
            "rename=gpu-mem:site-gpu-mem",
        ]);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(args.config, Some(PathBuf::from("/c/tessera.toml")));
        assert_eq!(args.tessera, PathBuf::from("/opt/bin/tessera"));
        assert!(!args.notice && !args.options);
        assert_eq!(args.env_on("n1").collect::<Vec<_>>(), [("PATH", "/opt/n1/bin:/usr/bin".to_owned())]);
        assert_eq!(args.name_of(Opt::Mem.spec()), "site-gpu-mem");
        assert_eq!(args.name_of(Opt::Sms.spec()), "gpu-sms");
        let (args, _) = Args::parse(["rename=gpu-threads:site-sms"]);
        assert_eq!(args.name_of(Opt::Sms.spec()), "site-sms");
        assert_eq!(args.name_of(&Spec::OLD[0]), "gpu-threads");
    }

    #[test]
    fn an_options_old_name_is_registered_once_as_its_present_one() {
        let names = |args: &[&str]| {
            let (args, problems) = Args::parse(args.iter().copied());
            assert_eq!(problems, Vec::<String>::new());
            let of = |spec: &'static Spec| (args.name_of(spec).to_owned(), spec.is_old());
            args.options()
                .map(|(_, spec)| of(spec))
                .filter(|(name, _)| name == "gpu-threads")
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), [("gpu-threads".to_owned(), true)]);
        assert_eq!(names(&["rename=gpu-sms:gpu-threads"]), [("gpu-threads".to_owned(), false)]);
    }

    #[test]
    fn names_what_it_does_not() {
        for (arg, why) in [
            ("debug", "unknown"),
            ("config=tessera.toml", "absolute"),
            ("notice=maybe", "on or off"),
            ("options=some", "on or off"),
            ("env=PATH", "NAME=VALUE"),
            ("env=path=/x", "upper-case"),
            ("env=SLURM_JOB_ID=3", "own variables"),
            ("rename=gpu-mem", "OURS:YOURS"),
            ("rename=gpu-ram:x", "no such option"),
            ("rename=gpu-mem:Bad Name", "lower-case"),
            ("rename=gpu-mem:gpu-sms", "another option"),
            ("rename=gpu-mem:gpu-threads", "another option"),
        ] {
            let (args, problems) = Args::parse([arg]);
            assert_eq!(args, Args::default(), "{arg}");
            assert!(problems.len() == 1 && problems[0].contains(why), "{problems:?}");
        }
    }
}
