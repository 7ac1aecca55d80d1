//! Makes a cluster's directories and writes its configuration.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::artefacts::SLURM_NVML;
use crate::cluster::Cluster;
use crate::command::run;
use crate::config::{Place, Templates, Variant};
use crate::error::{HarnessError, at};
use crate::layout::Layout;
use crate::ports;

/// Makes a directory that users' jobs can read. No name is used twice, because the first directory may still be being
/// removed. No name is the beginning of another, because a cluster's processes are recognised by its directory's name.
pub(crate) fn fresh_dir() -> Result<PathBuf, HarnessError> {
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
pub(crate) fn check_reachable(dir: &Path) -> Result<(), HarnessError> {
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

/// Makes all directories of a cluster, with the owners and modes that daemons and jobs need.
pub(crate) fn make_dirs(layout: &Layout, nodes: &[String]) -> Result<(), HarnessError> {
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

/// Writes the configuration files, and a new key for munge.
pub(crate) fn write_config(
    cluster: &Cluster,
    templates: &Templates,
    variant: Variant,
    extra: &str,
) -> Result<(), HarnessError> {
    let layout = &cluster.layout;
    let host = run(&mut Command::new("hostname"))?.ok()?;
    let ports = ports::free(cluster.nodes.len() + 1)?;
    let mut slurm_plugins = cluster.slurm.plugin_dir();
    if cluster.inside.detects {
        slurm_plugins = format!("{slurm_plugins}:{}", layout.at(SLURM_NVML).display());
    }
    let place = Place {
        layout,
        host: host.trim(),
        controller_port: ports[0],
        node_ports: &ports[1..],
        slurm_plugins: &slurm_plugins,
        variant,
    };
    let write = |name: &str, text: &str, mode: u32| {
        let path = layout.etc(name);
        at(&path, fs::write(&path, text))?;
        at(&path, fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
    };
    write("slurm.conf", &format!("{}{extra}", place.slurm(&templates.slurm)), 0o644)?;
    write("gres.conf", &place.gres(&templates.gres), 0o644)?;
    let plugstack = if variant.stock { String::new() } else { place.plugstack(&templates.plugstack) };
    write("plugstack.conf", &plugstack, 0o644)?;
    write("tessera.toml", &place.tessera(&templates.tessera), 0o644)?;
    write(
        "cgroup.conf",
        &format!("CgroupPlugin={}\n{}", cluster.slurm.release.cgroup_plugin, templates.cgroup),
        0o644,
    )?;
    write("tessera-health", &place.health(&templates.health), 0o755)?;
    write("task-prolog", &place.task_prolog(), 0o755)?;
    write_munge_key(layout)
}

/// Writes a new key for the cluster's own munged.
pub(crate) fn write_munge_key(layout: &Layout) -> Result<(), HarnessError> {
    let key = layout.munge("key");
    let random = Path::new("/dev/urandom");
    let mut bytes = vec![0_u8; 128];
    at(random, fs::File::open(random).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes)))?;
    at(&key, fs::write(&key, bytes))?;
    at(&key, fs::set_permissions(&key, fs::Permissions::from_mode(0o600)))
}
