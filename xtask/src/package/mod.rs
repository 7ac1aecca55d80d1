//! `cargo xtask package`: a Debian or RPM package for every Slurm, an archive of the same files, or the command alone.
//!
//! The package holds what `cargo xtask install` installs below `/usr`, with plugins that bear no stamp. When it is installed, and when a
//! package changes Slurm's programs, `tessera setup` stamps copies of them. It is built for glibc 2.28, so it runs on each distribution
//! since RHEL 8 and Debian 10; with `--native`, it is built by the distribution's own linker and needs its glibc. It never touches a daemon: an
//! upgrade replaces files, as docs/upgrade.md wants it, and removal is refused while Slurm's files still name Tessera, because Slurm would not
//! start again.

mod about;
mod deb;
mod portable;
mod rpm;
mod stage;
mod tar;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lab::artefacts::Profile;
use lab::paths::target_dir;

use crate::command::{TaskError, at};
use crate::install::{self, Built};
use about::About;
use portable::Arch;

/// Options of `cargo xtask package`.
#[derive(Args)]
pub(crate) struct Package {
    /// The kind of package
    #[arg(long)]
    format: Format,
    /// Directory for the package
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// The processor that it is for
    #[arg(long, value_enum, default_value_t = Arch::own())]
    arch: Arch,
    /// Builds for distributions with this machine's glibc or a newer one, with the compiler pass of tessera-clang++
    #[arg(long)]
    native: bool,
    /// Packs what is built for debugging, natively, which builds faster
    #[arg(long, hide = true)]
    debug: bool,
    /// Another version than the sources', to test an upgrade
    #[arg(long, hide = true, default_value = env!("CARGO_PKG_VERSION"))]
    as_version: String,
}

/// Kinds of packages.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For Debian and Ubuntu
    Deb,
    /// For RHEL, Rocky, SUSE and others
    Rpm,
    /// An archive of a package's files, to be unpacked in /
    Tar,
    /// The `tessera` command alone, as a program that needs no library: to look at a cluster where nothing is installed
    Static,
}

/// Builds the package and says where it is.
#[expect(clippy::print_stdout, reason = "the result of the task")]
pub(crate) fn run(options: &Package) -> Result<(), TaskError> {
    let work = target_dir().join(format!("package-{}", std::process::id()));
    let packed = pack(options, &work);
    let removed = fs::remove_dir_all(&work);
    let package = packed?;
    at(&work, removed)?;
    let size = at(&package, fs::metadata(&package))?.len();
    println!("{} ({:.1} MB)", package.display(), size as f64 / 1e6);
    Ok(())
}

fn pack(options: &Package, work: &Path) -> Result<PathBuf, TaskError> {
    let root = work.join("root");
    at(&root, fs::create_dir_all(&root))?;
    at(&options.out, fs::create_dir_all(&options.out))?;
    let is_native = options.native || options.debug || options.format == Format::Static;
    if is_native && options.arch != Arch::own() {
        return Err(TaskError::Other(format!(
            "--arch {}: only packages that are not native can be for another processor than this machine's",
            options.arch
        )));
    }
    if options.format == Format::Static {
        return tar::build_static(&options.as_version, work, &options.out, options.debug);
    }
    let profile = if options.debug { Profile::Debug } else { Profile::Release };
    let built =
        if is_native { Built::here(Path::new("/usr"), profile)? } else { portable::build(options.arch)? };
    let etc = install::stage(&root, &built)?;
    let about = About {
        version: options.as_version.clone(),
        etc,
        compressed: !options.debug,
        arch: options.arch,
        is_native,
    };
    let files = stage::finish(&root, is_native)?;
    if !is_native {
        portable::check(&files.linked)?;
    }
    match options.format {
        Format::Deb => deb::build(&about, work, &files, &options.out),
        Format::Rpm => rpm::build(&about, work, &files, &options.out),
        _ => tar::build(&about, work, &options.out),
    }
}
