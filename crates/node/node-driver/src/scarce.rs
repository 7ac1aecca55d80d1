//! Resources that users share with root and can use up: room on file systems, processes, open files, memory.

use std::io;

use rustix::io::Errno;

/// Tells whether users can make a system call of root's fail with this error. It passes when they let go of what they have,
/// so it says nothing about the node: the job fails with the reason, and the node is not drained.
///
/// From the kernel's manual pages: `EAGAIN` is a limit on processes (fork(2), execve(2)), `ENOSPC` and `EDQUOT` no room and
/// no inode, `EMFILE` and `ENFILE` too many open files, `ENOMEM` and `ENOBUFS` no memory, `EMLINK` too many directories in
/// one, `ETXTBSY` a program that is open for writing, `E2BIG` too long an environment, `EUSERS` and `ETOOMANYREFS` their
/// own limits.
pub fn users_can_cause(error: &io::Error) -> bool {
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

/// Number of files that the driver's library is taken to open at once while it is loaded.
const FILES: usize = 16;

/// The error that users can cause at which this process cannot open that many files now.
pub fn lack_of_files() -> Option<io::Error> {
    let opened: io::Result<Vec<_>> = (0..FILES).map(|_| std::fs::File::open("/dev/null")).collect();
    opened.err().filter(users_can_cause)
}
