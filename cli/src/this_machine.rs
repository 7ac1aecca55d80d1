//! Names of this machine.

/// Returns this machine's node name: `SLURMD_NODENAME`, which tells several slurmds on one machine apart, else the host name
/// up to its first dot, as slurmd does it.
pub(crate) fn this_node() -> Option<String> {
    let named = std::env::var("SLURMD_NODENAME").ok().filter(|n| !n.is_empty());
    named.or_else(|| Some(host()).filter(|name| !name.is_empty()))
}

/// Returns this machine's name without its domain; empty if the kernel does not say it.
pub(crate) fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    host.trim().split('.').next().unwrap_or_default().to_owned()
}
