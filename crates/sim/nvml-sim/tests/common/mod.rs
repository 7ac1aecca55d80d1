//! What the integration tests share: a node in a scratch directory, the built library, the real programs.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A DGX-1V of A100s, MIG off.
pub(crate) const DGX_V: &str =
    "interconnect = \"dgx-v\"\n[[gpus]]\nmodel = \"a100-40gb\"\ncount = 8\nnuma = [0,0,0,0,1,1,1,1]\n";
/// Two A100s in MIG mode.
pub(crate) const TWO_MIG: &str = "[[gpus]]\nmodel = \"a100-40gb\"\ncount = 2\nmig = \"on\"\n";

/// A simulated node that goes with the value.
pub(crate) struct Node {
    dir: TempDir,
}

impl Node {
    /// Makes the node from a description.
    pub(crate) fn new(description: &str) -> Node {
        let dir = TempDir::with_prefix("nvml-sim").unwrap();
        // Tests ask as another user too.
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let node = Node { dir };
        std::fs::write(node.path("node.toml"), description).unwrap();
        let lib = node.path("lib");
        std::fs::create_dir(&lib).unwrap();
        std::fs::copy(library(), lib.join("libnvidia-ml.so.1")).unwrap();
        std::os::unix::fs::symlink("libnvidia-ml.so.1", lib.join("libnvidia-ml.so")).unwrap();
        let (file, root) = (node.path("node.toml"), node.path("root"));
        node.sim(&[
            "create",
            "--node",
            file.to_str().unwrap(),
            "--root",
            root.to_str().unwrap(),
            "--name",
            "n1",
        ]);
        node
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// `nvml-sim` on this node; must succeed.
    pub(crate) fn sim(&self, args: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nvml-sim"));
        text(&ok(command.args(args).arg("--state").arg(self.state())))
    }

    /// A program that will find this node.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("NVML_SIM_STATE", self.state()).env("LD_LIBRARY_PATH", self.path("lib"));
        command
    }

    /// `nvidia-smi` with these arguments; must succeed.
    pub(crate) fn smi(&self, args: &str) -> String {
        text(&ok(self.command(nvidia_smi()).args(args.split_whitespace())))
    }

    /// `nvidia-smi` as user `nobody`.
    pub(crate) fn smi_as_nobody(&self, args: &str) -> Output {
        let mut command = self.command("/usr/bin/setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(nvidia_smi());
        run(command.args(args.split_whitespace()))
    }
}

/// Runs a command and prints it with what came of it.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    eprintln!("{command:?}\n{}{}{}", text(&output), String::from_utf8_lossy(&output.stderr), output.status);
    output
}

/// As [`run`]; the command must succeed.
pub(crate) fn ok(command: &mut Command) -> Output {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {}", output.status);
    output
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The C library just built: cargo puts it beside the binary or among the dependencies.
pub(crate) fn library() -> PathBuf {
    let dir = Path::new(env!("CARGO_BIN_EXE_nvml-sim")).parent().unwrap();
    let candidates = [dir.join("libnvidia_ml.so"), dir.join("deps/libnvidia_ml.so")];
    let newest =
        candidates.iter().filter(|p| p.exists()).max_by_key(|p| p.metadata().unwrap().modified().unwrap());
    newest.expect("cargo built the C library").clone()
}

/// Where `cargo xtask setup` unpacks the real programs.
pub(crate) fn parts() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_nvml-sim")).ancestors().nth(2);
    let default = target.expect("target/PROFILE/nvml-sim").join("real-parts");
    std::env::var_os("TESSERA_REAL_PARTS").map_or(default, PathBuf::from)
}

fn part(path: &str) -> PathBuf {
    let found = parts().join(path);
    assert!(found.exists(), "{} is missing: run cargo xtask setup", found.display());
    found
}

pub(crate) fn nvidia_smi() -> PathBuf {
    part("root/usr/lib/nvidia/current/nvidia-smi")
}

pub(crate) fn python_packages() -> PathBuf {
    part("python")
}

pub(crate) fn slurm_nvml() -> PathBuf {
    part("root/usr/lib/x86_64-linux-gnu/slurm-wlm/gpu_nvml.so")
}
