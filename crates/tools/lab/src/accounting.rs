//! Slurm's accounting on a test cluster: its own slurmdbd and its own MariaDB.
//!
//! `cargo xtask setup` unpacks both below `target/`, without installing them. Each cluster uses its own sockets and ports.
//! slurmdbd is of the cluster's own series, in the chroot if it has one. MariaDB is the machine's for all.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use error_chain::with_causes;

use crate::clock::CONTROLLER;
use crate::cluster::Cluster;
use crate::command::{PATIENCE, run, wait_for};
use crate::daemon::Daemon;
use crate::error::{HarnessError, at};
use crate::layout::Layout;
use crate::paths::real_parts;
use crate::ports;
use crate::user::User;

/// Directory of Slurm's own plugins. The database's plugin is not installed there but unpacked in [`real_parts`].
const SLURM_PLUGINS: &str = "usr/lib/x86_64-linux-gnu/slurm-wlm";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// The database's plugin.
const STORAGE: &str = "accounting_storage_mysql.so";
/// The library that [`STORAGE`] loads.
const CLIENT: &str = "libmariadb.so.3";

/// MariaDB's log, in its directory.
const LOG: &str = "mariadbd.log";

/// Writes slurmdbd.conf and adds slurmdbd to slurm.conf.
pub(crate) fn lay_out(cluster: &Cluster) -> Result<(), HarnessError> {
    let layout = cluster.layout();
    let host = run(&mut Command::new("hostname"))?.ok()?;
    let port = ports::free(1)?[0];
    let socket = layout.munge_socket();
    let (socket, host) = (socket.display(), host.trim());
    // In a chroot the database's plugin is beside Slurm's own.
    let plugins = match &cluster.inside.chroot {
        None => readable(layout)?,
        Some(root) if root.join(SLURM_PLUGINS).join(STORAGE).is_file() => Path::new("/").join(SLURM_PLUGINS),
        Some(root) => {
            let missing = format!("{} has no slurmdbd: run `cargo xtask setup`", root.display());
            return Err(HarnessError::Unexpected(missing));
        }
    };
    let text = format!(
        "AuthType=auth/munge\nAuthInfo=socket={socket}\nDbdHost={host}\nDbdAddr=127.0.0.1\nDbdPort={port}\n\
         SlurmUser=slurm\nStorageType=accounting_storage/mysql\nStorageHost=localhost\nStorageUser=slurm\n\
         StorageLoc=slurm_acct_db\nLogFile={}\nPidFile={}\nPluginDir={}:/{SLURM_PLUGINS}\n",
        layout.log("slurmdbd").display(),
        layout.at("run").join("slurmdbd.pid").display(),
        plugins.display(),
    );
    let path = layout.etc("slurmdbd.conf");
    at(&path, fs::write(&path, text))?;
    // slurmdbd refuses a file that others can read, because it may hold a password.
    at(&path, fs::set_permissions(&path, fs::Permissions::from_mode(0o600)))?;
    let slurm = slurm_uid()?;
    at(&path, chown(&path, Some(slurm), None))?;
    let db = layout.at("db");
    for path in [db.clone(), db.join("data"), db.join("tmp")] {
        at(&path, fs::create_dir_all(&path))?;
        at(&path, chown(&path, Some(slurm), None))?;
    }
    let path = layout.etc("slurm.conf");
    let mut file = at(&path, fs::OpenOptions::new().append(true).open(&path))?;
    // Without its own socket named here, a client asks the system's munged.
    let lines = format!(
        "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n\
         AccountingStoragePort={port}\nAccountingStoragePass={socket}\n"
    );
    at(&path, file.write_all(lines.as_bytes()))
}

/// Copies the files that slurmdbd opens as the user `slurm`, who may not be able to read the checkout: it can lie in
/// root's home directory. Returns the plugins' directory.
fn readable(layout: &Layout) -> Result<PathBuf, HarnessError> {
    let (plugins, libraries) = (layout.at("db").join("plugins"), client_library(layout));
    for dir in [&plugins, &libraries] {
        at(dir, fs::create_dir_all(dir))?;
    }
    let from = real_parts().join(SLURM_PLUGINS).join(STORAGE);
    at(&from, fs::copy(&from, plugins.join(STORAGE)))?;
    let from = real_parts().join(LIBRARIES).join(CLIENT);
    at(&from, fs::copy(&from, libraries.join(CLIENT)))?;
    Ok(plugins)
}

fn client_library(layout: &Layout) -> PathBuf {
    layout.at("db").join("lib")
}

/// Starts both daemons and registers the cluster with slurmdbd.
pub(crate) fn start(cluster: &mut Cluster) -> Result<(), HarnessError> {
    bootstrap(cluster.layout())?;
    cluster.start(&Daemon::Mariadbd)?;
    let socket = cluster.layout().at("db").join("socket");
    wait_for("mariadbd's socket", PATIENCE, || {
        if socket.exists() { Ok(()) } else { Err("no socket".to_owned()) }
    })?;
    cluster.start(&Daemon::Slurmdbd)?;
    wait_for("slurmdbd to answer", PATIENCE, || {
        let done = cluster.run(User::Root, "sacctmgr", &["-i", "add", "cluster", "tessera"]);
        let done = done.map_err(|e| with_causes(&e))?;
        // An earlier call added it, but its answer came too late.
        if done.stdout.contains("already exists") {
            Ok(())
        } else {
            done.ok().map(drop).map_err(|e| with_causes(&e))
        }
    })
}

/// Creates the tables that every MariaDB needs and an empty database for Slurm.
fn bootstrap(layout: &Layout) -> Result<(), HarnessError> {
    let share = real_parts().join("usr/share/mysql");
    let mut sql = "create database mysql;\nuse mysql;\n".to_owned();
    for name in ["mysql_system_tables.sql", "mysql_system_tables_data.sql"] {
        let path = share.join(name);
        sql += &at(&path, fs::read_to_string(&path))?;
    }
    sql += "create database slurm_acct_db;\n";
    let mut command = mariadbd(layout);
    command.arg("--bootstrap").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let wrong = |source| HarnessError::Start { program: "mariadbd --bootstrap".to_owned(), source };
    let mut child = command.spawn().map_err(wrong)?;
    let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(sql.as_bytes()));
    let status = child.wait().map_err(wrong)?;
    match written {
        Ok(()) if status.success() => Ok(()),
        _ => {
            let log = fs::read_to_string(layout.at("db").join(LOG)).unwrap_or_default();
            Err(HarnessError::Unexpected(format!("mariadbd --bootstrap: {status}\n{log}")))
        }
    }
}

fn mariadbd(layout: &Layout) -> Command {
    let root = real_parts();
    let mut command = Command::new(root.join("usr/sbin/mariadbd"));
    command.env("LD_LIBRARY_PATH", root.join(LIBRARIES));
    command.arg("--no-defaults");
    for (option, path) in [
        ("basedir", root.join("usr")),
        ("lc-messages-dir", root.join("usr/share/mysql")),
        ("plugin-dir", root.join("usr/lib/mysql/plugin")),
        ("datadir", layout.at("db").join("data")),
        ("socket", layout.at("db").join("socket")),
        ("pid-file", layout.at("db").join("pid")),
        ("log-error", layout.at("db").join(LOG)),
        // A mariadbd that starts removes every other's temporary tables in the directory that it uses.
        ("tmpdir", layout.at("db").join("tmp")),
    ] {
        command.arg(format!("--{option}={}", path.display()));
    }
    command.args(["--user=slurm", "--skip-networking", "--innodb-buffer-pool-size=32M"]);
    command.args(["--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0"]);
    command
}

/// The database daemon without passwords: only this cluster's directory holds its socket.
pub(crate) fn database(layout: &Layout) -> Command {
    let mut command = mariadbd(layout);
    command.arg("--skip-grant-tables");
    command
}

pub(crate) fn slurmdbd(cluster: &Cluster) -> Command {
    let layout = cluster.layout();
    let mut command = if cluster.inside.chroot.is_some() {
        cluster.daemon_command(CONTROLLER, "slurmdbd", &["-D"])
    } else {
        let root = real_parts();
        let mut command = Command::new(root.join("usr/sbin/slurmdbd"));
        let libraries = [client_library(layout), root.join(LIBRARIES)].map(|dir| dir.display().to_string());
        command.arg("-D").env("LD_LIBRARY_PATH", libraries.join(":"));
        command.env("SLURM_CONF", layout.etc("slurm.conf"));
        command
    };
    command.env("MYSQL_UNIX_PORT", layout.at("db").join("socket"));
    command
}

fn slurm_uid() -> Result<u32, HarnessError> {
    let id = run(Command::new("id").args(["-u", "slurm"]))?.ok()?;
    id.trim().parse().map_err(|_| HarnessError::Unexpected(format!("no user slurm: {id}")))
}
