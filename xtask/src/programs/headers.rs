//! NVIDIA's headers as clang looks for them, from what pip installs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::command::{TaskError, absolute, at};

/// Directories below `nvidia` that pip's packages install, and the package of each.
const PARTS: [(&str, &str); 5] = [
    ("cuda_runtime", "nvidia-cuda-runtime-cu12"),
    ("cuda_nvcc", "nvidia-cuda-nvcc-cu12"),
    ("cuda_cccl", "nvidia-cuda-cccl-cu12"),
    ("curand", "nvidia-curand-cu12"),
    ("cublas", "nvidia-cublas-cu12"),
];
/// Without these no program compiles; the others are for programs that use the libraries.
const NEEDED: usize = 3;

/// Makes a CUDA directory in `to`, of links to what pip installed in `from`.
pub(crate) fn assemble(from: &Path, to: &Path) -> Result<PathBuf, TaskError> {
    let nvidia = absolute(from)?.join("nvidia");
    let root = to.join("cuda");
    let _ = fs::remove_dir_all(&root);
    let include = root.join("include");
    for dir in [&include, &root.join("bin"), &root.join("lib64")] {
        at(dir, fs::create_dir_all(dir))?;
    }
    for (number, (part, package)) in PARTS.iter().enumerate() {
        let dir = nvidia.join(part).join("include");
        if dir.is_dir() {
            link_all(&dir, &include)?;
        } else if number < NEEDED {
            // A second installation into the same directory leaves `nvidia` as it is.
            let all: Vec<&str> = PARTS.iter().map(|(_, package)| *package).collect();
            return Err(TaskError::Other(format!(
                "{}: no such directory. Install {package} with the others at once, into an empty directory: pip install --no-deps --target DIR {}",
                dir.display(),
                all.join(" ")
            )));
        }
    }
    let nvvm = nvidia.join("cuda_nvcc/nvvm");
    at(&nvvm, symlink(&nvvm, root.join("nvvm")))?;
    Ok(root)
}

/// Links to everything in a directory. Some packages share names, such as `__init__.py`: the first one counts.
fn link_all(from: &Path, to: &Path) -> Result<(), TaskError> {
    for entry in at(from, fs::read_dir(from))? {
        let path = at(from, entry)?.path();
        let link = to.join(path.file_name().unwrap_or_default());
        if !link.exists() {
            at(&link, symlink(&path, &link))?;
        }
    }
    Ok(())
}
