//! What users share with root and can use up: room on file systems, processes, open files, memory.

use std::io;

use rustix::io::Errno;

/// Whether users can make a system call of root's fail with this error. It passes when they let go of what they have, so it
/// says nothing about the node: the job fails with the reason, and the node is not drained.
///
/// From the kernel's manual pages: `EAGAIN` is a limit on processes (fork(2), execve(2)), `ENOSPC` and `EDQUOT` no room and
/// no inode, `EMFILE` and `ENFILE` too many open files, `ENOMEM` and `ENOBUFS` no memory, `EMLINK` too many directories in
/// one, `ETXTBSY` a program that is open for writing, `E2BIG` too long an environment, `EUSERS` and `ETOOMANYREFS` their
/// own limits.
pub(crate) fn users_can_cause(error: &io::Error) -> bool {
    const CAUSED: [Errno; 12] = [
        Errno::AGAIN,
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::NOBUFS,
        Errno::MLINK,
        Errno::TXTBSY,
        Errno::TOOBIG,
        Errno::USERS,
        Errno::TOOMANYREFS,
    ];
    Errno::from_io_error(error).is_some_and(|errno| CAUSED.contains(&errno))
}

/// How many files at once the driver's library is taken to open while it is loaded.
const FILES: usize = 16;

/// The error that users can cause at which this process cannot open that many files now.
pub(crate) fn lack_of_files() -> Option<io::Error> {
    let opened: io::Result<Vec<_>> = (0..FILES).map(|_| std::fs::File::open("/dev/null")).collect();
    opened.err().filter(users_can_cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::DeviceError;
    use crate::command::CommandError;
    use crate::gpu_ids::NvmlIndex;
    use crate::mps::MpsError;
    use crate::own_dirs::StateError;
    use crate::{Fault, RealiseError};

    /// Every fault that holds an error of the system, with this one.
    fn faults(errno: Errno) -> Vec<Fault> {
        let source = || io::Error::from(errno);
        let path = || std::path::PathBuf::from("/run/tessera/mps/gpu1");
        let command = || CommandError::Start { program: path(), source: source() };
        let key = || "gpu1".to_owned();
        vec![
            MpsError::State(StateError::Io { path: path(), what: "create it", source: source() }).into(),
            MpsError::Start { key: key(), source: command().into() }.into(),
            MpsError::Limits { key: key(), source: command().into() }.into(),
            DeviceError::Io { path: path(), what: "create it", source: source() }.into(),
            Fault::Reset { gpu: NvmlIndex(0), source: command() },
        ]
    }

    #[test]
    fn what_users_use_up_is_no_fault_of_the_node() {
        for errno in [Errno::AGAIN, Errno::NOSPC, Errno::DQUOT, Errno::MFILE, Errno::NFILE, Errno::TXTBSY] {
            for fault in faults(errno) {
                assert!(matches!(RealiseError::from(fault), RealiseError::JobFailed(_)), "{errno}");
            }
        }
        for errno in [Errno::NOENT, Errno::ACCESS, Errno::ROFS, Errno::IO] {
            let unfit = faults(errno).iter().filter(|fault| fault.node_unfit()).count();
            assert_eq!(unfit, 4, "{errno}: all but limits that a daemon does not take");
        }
    }
}
