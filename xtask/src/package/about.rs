//! What a package says of itself, and what it does when it comes and goes.

/// A package's name, on every distribution.
pub(super) const NAME: &str = "tessera";
/// One line for lists of packages.
pub(super) const SUMMARY: &str =
    "GPU placement for Slurm: MIG at job start, GPU sets by interconnect, packing";

/// What names Tessera's files in slurm.conf, as a regular expression.
const KEYS: &str = "PluginDir|JobSubmitPlugins|AcctGather[a-z]*Type|HealthCheckProgram";

/// What is known of one package.
pub(super) struct About {
    /// Tessera's version.
    pub(super) version: String,
    /// The version of the Slurm that loads the plugins, such as `22.05.8`.
    pub(super) slurm: String,
    /// The package of that Slurm's plugins, if the site has one.
    pub(super) slurm_package: Option<String>,
    /// Slurm's configuration directory.
    pub(super) etc: String,
    /// Whether the package is compressed, which takes most of the time.
    pub(super) compressed: bool,
}

impl About {
    /// The version of the package. One for a later Slurm replaces one for an earlier Slurm.
    pub(super) fn full_version(&self) -> String {
        format!("{}+slurm{}", self.version, self.slurm)
    }

    /// A few sentences. `wrap` is what begins each line.
    pub(super) fn description(&self, wrap: &str) -> String {
        let lines = [
            format!(
                "Plugins for exactly Slurm {}, the tessera command, the broker of GPU tasks, units,",
                self.slurm
            ),
            "manual pages, completions and examples. Installing, upgrading and removing the".to_owned(),
            "package restarts no daemon.".to_owned(),
        ];
        lines.map(|line| format!("{wrap}{line}")).join("\n")
    }

    /// The versions of Slurm's package that can load the plugins: from the first, up to but without the second.
    pub(super) fn slurm_range(&self) -> Option<(String, String)> {
        let (series, micro) = self.slurm.rsplit_once('.')?;
        let next: u32 = micro.parse::<u32>().ok()? + 1;
        Some((self.slurm.clone(), format!("{series}.{next}")))
    }

    /// Refuses removal while Slurm's files name Tessera, with the line that does: the lines of a shell script. In slurm.conf other
    /// lines may have the word, such as `ClusterName=tessera`.
    pub(super) fn refuse_removal(&self) -> String {
        format!(
            "refuse_if_named() {{\n\
             \x20   line=$(grep -Ei \"$2\" \"$1\" 2>/dev/null | head -n 1)\n\
             \x20   if [ -n \"$line\" ]; then\n\
             \x20       echo \"tessera: $1 still names Tessera, and Slurm would not start without it: $line\" >&2\n\
             \x20       echo \"tessera: follow /usr/share/doc/tessera/uninstall.md, then remove the package.\" >&2\n\
             \x20       exit 1\n\
             \x20   fi\n\
             }}\n\
             refuse_if_named {0}/slurm.conf '^[[:space:]]*({KEYS})[[:space:]]*=.*tessera'\n\
             refuse_if_named {0}/plugstack.conf '^[^#]*tessera'\n",
            self.etc
        )
    }
}

/// Tells the init system of new and gone units: the lines of a shell script.
pub(super) const RELOAD_UNITS: &str =
    "if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi\n";

/// A name that neither a control file nor a shell takes for something else.
pub(super) fn package_name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
    if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(allowed) {
        return Ok(text.to_owned());
    }
    Err("a package's name has letters, digits and + - . _ only, and begins with a letter or digit".to_owned())
}

#[cfg(test)]
pub(super) fn example() -> About {
    About {
        version: "0.1.0".to_owned(),
        slurm: "24.11.5".to_owned(),
        slurm_package: Some("slurm-wlm-basic-plugins".to_owned()),
        etc: "/etc/slurm".to_owned(),
        compressed: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_slurm_loads_the_plugins() {
        let range = example().slurm_range().unwrap();
        assert_eq!(range, ("24.11.5".to_owned(), "24.11.6".to_owned()));
        assert_eq!(example().full_version(), "0.1.0+slurm24.11.5");
    }

    #[test]
    fn names_that_would_break_a_control_file_are_refused() {
        assert!(package_name("slurm-wlm-basic-plugins").is_ok());
        for bad in ["", "a\nDepends: b", "a, b", "-a", "$(id)"] {
            assert!(package_name(bad).is_err(), "{bad:?}");
        }
    }
}
