//! A driver call that failed, with the GPU that it was about.

use super::code::Code;
use crate::gpu_ids::NvmlIndex;

/// A failed driver call.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum NvmlError {
    /// The library cannot be loaded.
    #[error("cannot load {path}: {why}")]
    Load { path: String, why: String },
    /// The library cannot be loaded or initialised, and no other file can be opened either: users can cause that.
    #[error("cannot load {path}: {why}; files cannot be opened on this node now: {lack}")]
    Scarce { path: String, why: String, lack: String },
    /// The library cannot be initialised, or a call that concerns no GPU failed.
    #[error("NVML: {what}: {code}")]
    Node { what: &'static str, code: Code },
    /// A call about one GPU failed.
    #[error("GPU {gpu}: {what}: {code}")]
    Gpu {
        gpu: NvmlIndex,
        /// The action that failed, with profile and start where there are any.
        what: String,
        code: Code,
    },
    /// A call about one GPU or instance, named by its UUID, failed.
    #[error("{uuid}: {what}: {code}")]
    Device { uuid: String, what: &'static str, code: Code },
}

impl NvmlError {
    /// NVML's answer; `None` if the library could not be loaded.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Load { .. } | Self::Scarce { .. } => None,
            Self::Node { code, .. } | Self::Gpu { code, .. } | Self::Device { code, .. } => Some(*code),
        }
    }

    /// True where no job can be started on this node.
    #[must_use]
    pub fn drains_node(&self) -> bool {
        match self {
            Self::Load { .. } => true,
            Self::Scarce { .. } => false,
            Self::Node { code, .. } => code.is_of_driver() || code.is_of_gpu(),
            Self::Gpu { code, .. } | Self::Device { code, .. } => code.is_of_driver(),
        }
    }

    /// Names the GPU that is unfit for any job, and says why. The node's other GPUs may be well.
    #[must_use]
    pub fn unwell_gpu(&self) -> Option<(NvmlIndex, Code)> {
        match self {
            Self::Gpu { gpu, code, .. } if code.is_of_gpu() => Some((*gpu, *code)),
            _ => None,
        }
    }
}

/// Turns NVML's answer about one GPU into an error that says what was tried.
pub fn at(gpu: NvmlIndex, what: &'static str) -> impl Fn(Code) -> NvmlError {
    move |code| NvmlError::Gpu { gpu, what: what.to_owned(), code }
}
