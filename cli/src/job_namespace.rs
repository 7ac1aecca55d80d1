//! Slurm's plugins that give each job a `/dev/shm` of its own. MPS has memory there that its daemon and its clients share, so a
//! client in such a job does not find it.

use site_config::hostlist::{compress, expand};
use slurm_files::{Line, lines};

/// Directories that both plugins replace unless their file names others [`SLURM_TMPFS_DEF_DIRS`, `SLURM_NEWNS_DEF_DIRS`].
const DEFAULT_DIRS: &str = "/tmp,/dev/shm";
const SHM: &str = "/dev/shm";

/// A plugin that gives jobs a mount namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobNamespace {
    /// job_container/tmpfs; from Slurm 25.11 on, namespace/tmpfs.
    Tmpfs,
    /// namespace/linux, from Slurm 25.11 on.
    Linux,
}

impl JobNamespace {
    /// Keys of slurm.conf that name the plugin. Slurm 25.11 and later know both.
    pub(crate) const KEYS: [&str; 2] = ["NamespaceType", "JobContainerType"];

    /// Finds the plugin by the value of a key.
    pub(crate) fn of(value: &str) -> Option<Self> {
        match value.rsplit('/').next() {
            Some("tmpfs") => Some(Self::Tmpfs),
            Some("linux") => Some(Self::Linux),
            _ => None,
        }
    }

    /// Names the plugin's own file, beside slurm.conf.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Tmpfs => "job_container.conf",
            Self::Linux => "namespace.yaml",
        }
    }

    /// Says for these nodes what follows for MPS and what to do, by the text of [`Self::file`], if that could be read. True with it if it is
    /// sure; `None`: nothing follows. `setting` is the line of slurm.conf.
    pub(crate) fn told(self, setting: &str, text: Option<&str>, names: &[String]) -> Option<(bool, String)> {
        let file = self.file();
        let (dirs, since) = match self {
            Self::Tmpfs => ("Dirs=", " (Slurm 23.02 and later)"),
            Self::Linux => ("dirs", ""),
        };
        let follows = format!(
            "gives each job a {SHM} of its own, and CUDA programs in MPS shares and GPU tasks then do not reach their MPS daemon and fail: \
             leave {SHM} out of {dirs} in {file}{since}, and restart slurmd on each node while it has no job"
        );
        let those = |wanted: Option<bool>| {
            let own = |name: &&String| text.and_then(|text| self.has_own_shm(text, name)) == wanted;
            let found: Vec<String> = names.iter().filter(own).cloned().collect();
            (!found.is_empty()).then(|| compress(&found))
        };
        let sure = those(Some(true)).map(|nodes| (true, format!("{nodes}: {setting} {follows}")));
        let unsure = || {
            let nodes = those(None)?;
            Some((false, format!("{nodes}: {setting}, unless {file} there leaves {SHM} out, {follows}")))
        };
        sure.or_else(unsure)
    }

    /// Tells whether jobs on this node have a `/dev/shm` of their own, by the text of [`Self::file`]; `None`: that cannot be told.
    fn has_own_shm(self, text: &str, node: &str) -> Option<bool> {
        match self {
            Self::Tmpfs => Some(tmpfs_has_own_shm(text, node)),
            Self::Linux => linux_has_own_shm(text),
        }
    }
}

/// Lines that begin with `NodeName=` are for these nodes, those that begin with `BasePath=` for all, and other lines have what is
/// missing there [read_jcconf.c]. `Shared=` only lets other mounts through.
fn tmpfs_has_own_shm(text: &str, node: &str) -> bool {
    let (mut base, mut dirs, mut common_dirs) = (None, None, None);
    for line in lines(text) {
        let line = Line::read(&line);
        let field = |key: &str| line.field(key).map(str::to_owned);
        let is_for_node = |list: &str| expand(list).is_ok_and(|names| names.iter().any(|name| name == node));
        if line.begins("BasePath")
            || line.begins("NodeName") && line.field("NodeName").is_some_and(is_for_node)
        {
            base = field("BasePath").or(base);
            dirs = field("Dirs").or(dirs);
        } else if !line.begins("NodeName") {
            common_dirs = field("Dirs").or(common_dirs);
        }
    }
    let is_on = base.is_some_and(|base: String| !base.to_ascii_lowercase().starts_with("none"));
    let dirs = dirs.or(common_dirs).unwrap_or_else(|| DEFAULT_DIRS.to_owned());
    is_on && dirs.to_ascii_lowercase().contains(SHM)
}

/// Without a reader of YAML, only a file with one setting for all nodes tells.
fn linux_has_own_shm(text: &str) -> Option<bool> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let text = lines.collect::<Vec<_>>().join("\n");
    let names_dirs = text.contains("dirs:") || text.contains("dir_confs:");
    (!text.contains("node_confs:")).then(|| !names_dirs || text.contains(SHM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_of_the_plugin_are_known() {
        let of = |value| JobNamespace::of(value);
        assert_eq!(of("job_container/tmpfs"), Some(JobNamespace::Tmpfs));
        assert_eq!([of("namespace/tmpfs"), of("namespace/linux")], {
            [Some(JobNamespace::Tmpfs), Some(JobNamespace::Linux)]
        });
        assert_eq!([of("(null)"), of("job_container/none"), of("")], [None; 3]);
    }

    #[test]
    fn only_dirs_without_shm_leaves_the_nodes_own_to_jobs() {
        let on = |text: &str| ["n1", "n2"].map(|node| JobNamespace::Tmpfs.has_own_shm(text, node).unwrap());
        assert_eq!(on("AutoBasePath=true\nBasePath=/var/nvme\n"), [true, true], "Slurm's default");
        assert_eq!(on("BasePath=/var/nvme Shared=true\n"), [true, true], "Shared= mounts it all the same");
        assert_eq!(on("BasePath=/var/nvme Dirs=/tmp,/var/tmp # /dev/shm\n"), [false, false]);
        assert_eq!(on("Dirs=/tmp\nBasePath=/var/nvme\n"), [false, false], "for all lines");
        assert_eq!(on("basepath=/var/nvme dirs=/DEV/SHM\n"), [true, true]);
        assert_eq!(on("NodeName=n[2-4] BasePath=/var/nvme\n"), [false, true], "none on other nodes");
        assert_eq!(on("BasePath=/var/nvme\nNodeName=n1 BasePath=none\n"), [false, true]);
        assert_eq!(on("Dirs=/tmp\nNodeName=n1 BasePath=/a Dirs=/dev/shm\nNodeName=n2 BasePath=/a\n"), {
            [true, false]
        });
    }

    #[test]
    fn a_file_with_settings_for_some_nodes_is_not_guessed_at() {
        let on = |text: &str| JobNamespace::Linux.has_own_shm(text, "n1");
        let base = "defaults:\n  base_path: \"/var/nvme\"\n";
        assert_eq!(on(base), Some(true), "Slurm's default");
        assert_eq!(on(&format!("{base}  dirs: \"/tmp\" # not /dev/shm\n")), Some(false));
        assert_eq!(on(&format!("{base}  dir_confs:\n    - path: \"/dev/shm\"\n")), Some(true));
        assert_eq!(on(&format!("{base}node_confs:\n  - nodes: [n1]\n")), None);
    }

    #[test]
    fn nodes_where_shares_fail_are_named_with_what_to_do() {
        let names = ["n1".to_owned(), "n2".to_owned()];
        let told = |text| {
            let told = JobNamespace::Tmpfs.told("JobContainerType=job_container/tmpfs", text, &names);
            told.map(|(sure, what)| format!("{sure} {what}")).unwrap_or_default()
        };
        assert_eq!(told(Some("BasePath=/a Dirs=/tmp\n")), "");
        insta::assert_snapshot!(told(Some("NodeName=n2 BasePath=/a\n")), @"true n2: JobContainerType=job_container/tmpfs gives each job a /dev/shm of its own, and CUDA programs in MPS shares and GPU tasks then do not reach their MPS daemon and fail: leave /dev/shm out of Dirs= in job_container.conf (Slurm 23.02 and later), and restart slurmd on each node while it has no job");
        let unknown = told(None);
        assert!(
            unknown.starts_with(
                "false n[1-2]: JobContainerType=job_container/tmpfs, unless job_container.conf there "
            ),
            "{unknown}"
        );
    }
}
