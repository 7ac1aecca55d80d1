//! Description of a package, and its scripts for installation and removal.

use super::portable::Arch;

/// A package's name, on every distribution.
pub(super) const NAME: &str = "tessera";
/// Description for lists of packages, one line.
pub(super) const SUMMARY: &str =
    "GPU placement for Slurm: MIG at job start, GPU sets by interconnect, packing";

/// Keys that name Tessera's files in slurm.conf, as a regular expression.
const KEYS: &str = "PluginDir|JobSubmitPlugins|AcctGather[a-z]*Type|HealthCheckProgram";

/// Facts about a package.
pub(super) struct About {
    /// Tessera's version.
    pub(super) version: String,
    /// Slurm's configuration directory.
    pub(super) etc: String,
    /// True if the package is compressed, which takes most of the time.
    pub(super) compressed: bool,
    /// The processor.
    pub(super) arch: Arch,
    /// True if it is linked with the libraries of this machine's distribution.
    pub(super) is_native: bool,
}

impl About {
    /// A few sentences. `wrap` is what begins each line.
    pub(super) fn description(&self, wrap: &str) -> String {
        let lines = [
            "Plugins for Slurm 22.05 to 26.05, the tessera command, the broker of GPU tasks, units,",
            "manual pages, completions and examples. `tessera setup` fits the plugins to the Slurm that",
            "is installed. Installing, upgrading and removing the package restarts no daemon.",
        ];
        lines.map(|line| format!("{wrap}{line}")).join("\n")
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

/// Programs of Slurm's: a package that brings another version of them brings a Slurm that needs other stamps. A login node has the last alone.
pub(super) const PROGRAMS: [&str; 3] = ["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/sinfo"];

/// Stamps the plugins for the Slurm that is there: the lines of a shell script. Without one, `tessera setup` is for later.
pub(super) const STAMP: &str = "if ! tessera setup --plugins-only --apply; then\n\
    \x20   echo \"tessera: run tessera setup --plugins-only --apply once Slurm is installed; until then Slurm does not load Tessera\" >&2\n\
    fi\n";

/// Takes the stamped plugins away, which no package has, unless files that Slurm's include, or that slurmctld has sent, name them: the lines
/// of a shell script.
pub(super) const UNSTAMP: &str = "said=$(tessera setup --plugins-only --remove --apply 2>&1) || case $said in\n\
    *'still names Tessera'*)\n\
    \x20   echo \"$said\" >&2\n\
    \x20   echo \"tessera: follow /usr/share/doc/tessera/uninstall.md, then remove the package.\" >&2\n\
    \x20   exit 1\n\
    \x20   ;;\n\
    esac\n";

#[cfg(test)]
pub(super) fn example() -> About {
    let (version, etc) = ("0.1.0".to_owned(), "/etc/slurm".to_owned());
    About { version, etc, compressed: true, arch: Arch::X86_64, is_native: true }
}
