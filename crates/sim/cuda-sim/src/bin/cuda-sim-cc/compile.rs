//! Runs the compilers.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command_line::{Failure, Options};
use crate::kernel;

/// The only compiler that kernels are compiled with.
const KERNEL_CLANG: &str = "clang++-19";
/// CUDA mode without NVIDIA's toolkit. The version makes clang use the launch functions of CUDA 9.2 and later.
const CUDA: [&str; 7] =
    ["-x", "cuda", "--cuda-host-only", "-nocudainc", "-nocudalib", "-Xclang", "-target-sdk-version=12.5"];
/// Device code for the host's processor.
const DEVICE: [&str; 9] = [
    "-fPIC",
    "-D__CUDA_SIM_DEVICE__",
    // clang defines it as 1 here, which no source expects.
    "-D__CUDA_ARCH__=800",
    "-Wno-macro-redefined",
    "-Xclang",
    "-fcuda-is-device",
    "-Xclang",
    "-fcuda-allow-variadic-functions",
    "-Wno-unused-command-line-argument",
];
/// Dynamic shared memory of a block: the most that any GPU has.
const SHARED_BYTES: u32 = 227 << 10;

/// Does what the command line asks for.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let scratch = Scratch::new()?;
    let include = include_dir()?;
    if options.kernels_only {
        let source = options.sources.first().map_or("", String::as_str);
        let image = image(options, &scratch, &include, source)?;
        let output = options.output.clone().unwrap_or_else(|| with_end(source, "kern"));
        let image = image.ok_or_else(|| format!("{source} has no kernel"))?;
        return fs::copy(&image, &output).map(drop).map_err(|e| format!("{output}: {e}"));
    }
    let mut objects = Vec::new();
    for source in &options.sources {
        let image = image(options, &scratch, &include, source)?;
        let object = match (options.compile_only, &options.output) {
            (true, Some(output)) => PathBuf::from(output),
            (true, None) => PathBuf::from(with_end(source, "o")),
            _ => scratch.file("host.o"),
        };
        let mut host = Command::new(&options.clang);
        host.args(CUDA).arg("-Wno-unused-command-line-argument").arg("-I").arg(&include);
        host.args(&options.flags).args(&options.host_flags);
        if let Some(image) = image {
            host.args(["-Xclang", "-fcuda-include-gpubinary", "-Xclang"]).arg(image);
        }
        output_of(host.arg("-c").arg(source).arg("-o").arg(&object))?;
        objects.push(object);
    }
    if options.compile_only {
        return Ok(());
    }
    let mut link = Command::new(&options.clang);
    link.args(&objects).args(&options.others).args(&options.flags).args(&options.host_flags);
    link.arg("-Wno-unused-command-line-argument").arg("-L").arg(library_dir()?).arg("-lcudart");
    output_of(link.arg("-o").arg(options.output.as_deref().unwrap_or("a.out"))).map(drop)
}

/// Makes the image of a file's kernels; `None` if it has none.
fn image(
    options: &Options,
    scratch: &Scratch,
    include: &Path,
    source: &str,
) -> Result<Option<PathBuf>, Failure> {
    let path = fs::canonicalize(source).map_err(|e| format!("{source}: {e}"))?;
    let device = |input: &Path, object: &Path, optimise: bool| {
        let mut command = Command::new(KERNEL_CLANG);
        command.args(CUDA).args(DEVICE).arg("-I").arg(include).args(&options.flags);
        if !optimise {
            command.arg("-O0");
        }
        output_of(command.arg("-c").arg(input).arg("-o").arg(object))
    };
    let first = scratch.file("names.o");
    device(&path, &first, false)?;
    let symbols = kernel::symbols(&output_of(Command::new("objdump").arg("-t").arg(&first))?);
    if symbols.is_empty() {
        return Ok(None);
    }
    let readable = output_of(Command::new("c++filt").args(&symbols))?;
    let mut text = format!("#include \"{}\"\n#include \"cuda_sim_image.h\"\n", path.display());
    for (symbol, readable) in symbols.iter().zip(readable.lines()) {
        let _ = writeln!(
            text,
            "__CUDA_SIM_CALLER(__cuda_sim_call_{symbol}, {})",
            kernel::pointer_type(readable)?
        );
    }
    let (callers, object, grid) =
        (scratch.file("kernels.cu"), scratch.file("kernels.o"), scratch.file("grid.o"));
    fs::write(&callers, text).map_err(|e| format!("{}: {e}", callers.display()))?;
    device(&callers, &object, true)?;
    let mut command = Command::new(KERNEL_CLANG);
    command.args(["-fPIC", "-O2", "-c"]).arg(include.join("cuda_sim_grid.cpp"));
    output_of(command.arg("-o").arg(&grid))?;
    link_image(scratch, &object, &grid).map(Some)
}

/// Links an image. What the kernels lack is dynamic shared memory: all arrays of it are the same memory.
fn link_image(scratch: &Scratch, object: &Path, grid: &Path) -> Result<PathBuf, Failure> {
    let image = scratch.file("image.so");
    let link = |extra: Option<&Path>| {
        let mut command = Command::new(KERNEL_CLANG);
        command.args(["-shared", "-Wl,-Bsymbolic", "-Wl,--unresolved-symbols=ignore-all", "-o"]).arg(&image);
        output_of(command.arg(object).arg(grid).args(extra))
    };
    link(None)?;
    let dynamic = output_of(Command::new("nm").args(["-D", "--undefined-only"]).arg(&image))?;
    // What a library of the system gives has a version: `U sqrtf@GLIBC_2.2.5`.
    let words = dynamic.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let missing: Vec<&str> =
        words.filter_map(|w| (w.first() == Some(&"U")).then(|| w.last().copied())?).collect();
    let missing: Vec<&str> = missing.into_iter().filter(|name| !name.contains('@')).collect();
    if missing.is_empty() {
        return Ok(image);
    }
    let relocations = output_of(Command::new("objdump").arg("-r").arg(object))?;
    for name in &missing {
        let is_called = |line: &str| {
            line.contains("PLT32")
                && line.split_whitespace().last().is_some_and(|w| w.split(['-', '+']).next() == Some(*name))
        };
        if relocations.lines().any(is_called) {
            return Err(format!("a kernel calls `{name}`, which is no device function of this file"));
        }
    }
    let labels: String = missing.iter().map(|name| format!(".globl {name}\n{name}:\n")).collect();
    let shared = scratch.file("shared.s");
    let text =
        format!(".bss\n.balign 256\n{labels}.zero {SHARED_BYTES}\n.section .note.GNU-stack,\"\",@progbits\n");
    fs::write(&shared, text).map_err(|e| format!("{}: {e}", shared.display()))?;
    link(Some(&shared))?;
    Ok(image)
}

/// The result's name for a source.
fn with_end(source: &str, end: &str) -> String {
    let name = Path::new(source).file_stem().unwrap_or_default();
    Path::new(name).with_extension(end).display().to_string()
}

/// The headers: `CUDA_SIM_INCLUDE`, else those of the checkout that this program was built from.
fn include_dir() -> Result<PathBuf, Failure> {
    let built_from = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let dir = std::env::var_os("CUDA_SIM_INCLUDE").map_or_else(|| PathBuf::from(built_from), PathBuf::from);
    if dir.join("cuda_sim_image.h").is_file() {
        return Ok(dir);
    }
    Err(format!("{}: no headers of cuda-sim there; CUDA_SIM_INCLUDE names their directory", dir.display()))
}

/// `libcudart.so` lies beside this program, or among cargo's `deps` when only tests were built.
fn library_dir() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe().map_err(|e| format!("this program's own path: {e}"))?;
    let dir = program.parent().unwrap_or(Path::new("/")).to_path_buf();
    let found = [dir.clone(), dir.join("deps")].into_iter().find(|d| d.join("libcudart.so").is_file());
    found.ok_or_else(|| {
        format!("{}: libcudart.so is missing there; build it: cargo build -p cudart-sim", dir.display())
    })
}

/// Runs a command. What it prints to standard error is the user's, errors above all.
fn output_of(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let hint = "install clang-19 and binutils, or run `cargo xtask setup`";
    let done = command.stderr(std::process::Stdio::inherit()).output();
    let done = done.map_err(|e| format!("{name}: {e}; {hint}"))?;
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    } else {
        Err(format!("{name} failed"))
    }
}

/// A directory for what lies between two steps.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, Failure> {
        let mut n = 0;
        loop {
            let dir = std::env::temp_dir().join(format!("cuda-sim-cc.{}.{n}", std::process::id()));
            match fs::create_dir(&dir) {
                Ok(()) => return Ok(Scratch(dir)),
                // One of this number was killed before.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => n += 1,
                Err(e) => return Err(format!("{}: {e}", dir.display())),
            }
        }
    }

    /// A file that no step before has made.
    fn file(&self, name: &str) -> PathBuf {
        let mut n = 0;
        loop {
            let path = self.0.join(format!("{n}.{name}"));
            if !path.exists() {
                return path;
            }
            n += 1;
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
