//! Lays out a cluster's files and starts its daemons.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use slurm_releases::Release;

use crate::artefacts::{self, Profile};
use crate::cluster::Cluster;
use crate::command::{PATIENCE, run};
use crate::config::{Place, Templates};
use crate::daemons::Daemon;
use crate::error::{HarnessError, at};
use crate::inside::Inside;
use crate::layout::Layout;
use crate::paths;
use crate::{accounting, ports, sim};

/// Describes a cluster; [`Builder::start`] makes it.
#[derive(Debug)]
pub struct Builder {
    dir: Option<PathBuf>,
    release: Release,
    profile: Profile,
    stock: bool,
    templates: Option<Templates>,
    guardian: Option<Vec<String>>,
    extra_slurm_conf: String,
    accounting: bool,
}

impl Cluster {
    /// A cluster from the project's example files: two nodes with Tessera's plugins, in a new directory.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            dir: None,
            release: Release::MACHINE,
            profile: Profile::Debug,
            stock: false,
            templates: None,
            guardian: None,
            extra_slurm_conf: String::new(),
            accounting: false,
        }
    }
}

impl Builder {
    /// Uses `dir` and leaves it in place. Without this, the cluster uses a new directory in `/tmp` and removes it.
    #[must_use]
    pub fn dir(mut self, dir: &Path) -> Self {
        self.dir = Some(dir.to_path_buf());
        self
    }

    /// Runs this Slurm instead of the machine's own.
    #[must_use]
    pub fn slurm(mut self, release: Release) -> Self {
        self.release = release;
        self
    }

    /// Builds for release instead of debugging.
    #[must_use]
    pub fn release(mut self) -> Self {
        self.profile = Profile::Release;
        self
    }

    /// Runs Slurm alone, without any part of Tessera, for comparison.
    #[must_use]
    pub fn stock(mut self, stock: bool) -> Self {
        self.stock = stock;
        self
    }

    /// Uses these files instead of the project's examples.
    #[must_use]
    pub fn templates(mut self, templates: Templates) -> Self {
        self.templates = Some(templates);
        self
    }

    /// Adds lines to slurm.conf.
    #[must_use]
    pub fn slurm_conf(mut self, lines: &str) -> Self {
        self.extra_slurm_conf.push_str(lines);
        self.extra_slurm_conf.push('\n');
        self
    }

    /// Adds slurmdbd and its database, so that `sacct` lists jobs. Only for the machine's own Slurm.
    #[must_use]
    pub fn accounting(mut self) -> Self {
        self.accounting = true;
        self
    }

    /// The program that ends the cluster when its stdin closes, even if this process is killed: [`crate::guardian::main`]
    /// in some binary. Its further arguments are the cluster's directory, and `remove` if the directory is to be removed.
    #[must_use]
    pub fn guardian(mut self, program: Vec<String>) -> Self {
        self.guardian = Some(program);
        self
    }

    /// Builds, lays out, starts, and waits until every node is idle.
    ///
    /// # Errors
    ///
    /// The step that failed. If a daemon did not start, the error has the end of its log.
    pub fn start(self) -> Result<Cluster, HarnessError> {
        let accounting = self.accounting;
        let mut cluster = self.lay_out()?;
        cluster.start(&Daemon::Munged)?;
        cluster.wait_munged()?;
        if accounting {
            accounting::start(&mut cluster)?;
        }
        cluster.start(&Daemon::Slurmctld)?;
        for node in cluster.nodes.clone() {
            cluster.start(&Daemon::Slurmd(node))?;
        }
        cluster.wait_ready(PATIENCE)?;
        Ok(cluster)
    }

    /// Everything but starting the daemons.
    ///
    /// # Errors
    ///
    /// What could not be built or written.
    pub fn lay_out(self) -> Result<Cluster, HarnessError> {
        let templates = self.templates.map_or_else(Templates::shipped, Ok)?;
        if !self.stock {
            artefacts::build(self.release, self.profile)?;
        }
        let (dir, remove_dir) = match self.dir {
            Some(dir) => (dir, false),
            None => (fresh_dir()?, true),
        };
        let layout = Layout::new(&dir);
        check_reachable(&dir)?;
        make_dirs(&layout, &templates.node_names())?;
        let cluster = Cluster {
            inside: Inside { chroot: paths::chroot(self.release) },
            guardian: self.guardian.map(|program| start_guardian(&program, &dir, remove_dir)).transpose()?,
            nodes: templates.node_names(),
            release: self.release,
            children: Vec::new(),
            keep: false,
            remove_dir,
            layout,
        };
        cluster.describe()?;
        write_config(&cluster, &templates, self.stock, &self.extra_slurm_conf)?;
        if self.accounting {
            accounting::lay_out(&cluster.layout)?;
        }
        if self.stock {
            sim::plain_device_nodes(&cluster.layout, &templates)?;
        } else {
            artefacts::install_common(&cluster.layout, self.profile)?;
            artefacts::install_plugins(&cluster.layout, self.release, self.profile)?;
            sim::create_nodes(&cluster, &templates)?;
        }
        Ok(cluster)
    }
}

fn start_guardian(program: &[String], dir: &Path, remove: bool) -> Result<std::process::Child, HarnessError> {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).arg(dir).stdin(Stdio::piped()).stdout(Stdio::null());
    command.args(remove.then_some("remove"));
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().map_err(|source| HarnessError::Start { program: program[0].clone(), source })
}

/// Makes a directory that users' jobs can read. No name is used twice, because the first directory may still be being
/// removed. No name is the beginning of another, because a cluster's processes are recognised by its directory's name.
fn fresh_dir() -> Result<PathBuf, HarnessError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let base = std::env::temp_dir();
    for _ in 0..1000 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = base.join(format!("tessera-{}-{number:04}", std::process::id()));
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(HarnessError::File { path: dir.display().to_string(), source }),
        }
    }
    Err(HarnessError::Unexpected(format!("no free directory name in {}", base.display())))
}

/// Checks that every directory above lets other users pass: their jobs read the cluster's files.
fn check_reachable(dir: &Path) -> Result<(), HarnessError> {
    for above in dir.ancestors().skip(1) {
        let Ok(meta) = fs::metadata(above) else { continue };
        if meta.permissions().mode() & 0o001 == 0 {
            return Err(HarnessError::Unexpected(format!(
                "other users cannot pass through {0}: jobs would not find the cluster in {1}; chmod o+x {0}, or take another place",
                above.display(),
                dir.display()
            )));
        }
    }
    Ok(())
}

fn make_dirs(layout: &Layout, nodes: &[String]) -> Result<(), HarnessError> {
    for name in ["etc", "run", "state", "spool", "log", "nodes", "bin", "lib", "plugins", "jobs", "munge"] {
        let path = layout.at(name);
        at(&path, fs::create_dir_all(&path))?;
    }
    // The controller runs as Slurm's own user.
    let slurm = run(Command::new("id").args(["-u", "slurm"]))?.ok()?;
    for name in ["state", "log", "run"] {
        let path = layout.at(name);
        at(&path, chown(&path, slurm.trim().parse().ok(), None))?;
    }
    for node in nodes {
        let spool = layout.at("spool").join(node);
        at(&spool, fs::create_dir_all(&spool))?;
        for name in ["dev", "proc", "state", "run"] {
            let path = layout.node(node).join(name);
            at(&path, fs::create_dir_all(&path))?;
        }
    }
    at(layout.dir(), fs::set_permissions(layout.dir(), fs::Permissions::from_mode(0o755)))?;
    let jobs = layout.jobs();
    at(&jobs, fs::set_permissions(&jobs, fs::Permissions::from_mode(0o1777)))
}

fn write_config(
    cluster: &Cluster,
    templates: &Templates,
    stock: bool,
    extra: &str,
) -> Result<(), HarnessError> {
    let layout = &cluster.layout;
    let host = run(&mut Command::new("hostname"))?.ok()?;
    let ports = ports::free(cluster.nodes.len() + 1)?;
    let place = Place {
        layout,
        host: host.trim(),
        controller_port: ports[0],
        node_ports: &ports[1..],
        slurm_plugins: "/usr/lib/x86_64-linux-gnu/slurm-wlm",
        stock,
    };
    let write = |name: &str, text: &str, mode: u32| {
        let path = layout.etc(name);
        at(&path, fs::write(&path, text))?;
        at(&path, fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
    };
    write("slurm.conf", &format!("{}{extra}", place.slurm(&templates.slurm)), 0o644)?;
    write("gres.conf", &place.gres(&templates.gres), 0o644)?;
    let plugstack = if stock { String::new() } else { place.plugstack(&templates.plugstack) };
    write("plugstack.conf", &plugstack, 0o644)?;
    write("tessera.toml", &place.tessera(&templates.tessera), 0o644)?;
    write("cgroup.conf", &format!("CgroupPlugin={}\n", cluster.release.cgroup_plugin), 0o644)?;
    write("tessera-health", &place.health(&templates.health), 0o755)?;
    write("task-prolog", &place.task_prolog(), 0o755)?;
    let key = layout.munge("key");
    let random = Path::new("/dev/urandom");
    let mut bytes = vec![0_u8; 128];
    at(random, fs::File::open(random).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes)))?;
    at(&key, fs::write(&key, bytes))?;
    at(&key, fs::set_permissions(&key, fs::Permissions::from_mode(0o600)))
}
