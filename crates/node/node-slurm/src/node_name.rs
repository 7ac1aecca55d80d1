//! Finds the node that a slurmd serves.

/// Finds the name of the node that this slurmd serves: its `-N`, which alone tells several on one machine apart, else
/// `SLURMD_NODENAME`, else what slurm.conf says of this machine ([`configured_node_name`](crate::configured_node_name)): a node need
/// not have its host's name.
#[must_use]
pub fn node_name(
    args: impl IntoIterator<Item = String>,
    env: &dyn Fn(&str) -> Option<String>,
    configured: impl FnOnce() -> Option<String>,
) -> Option<String> {
    let mut args = args.into_iter().skip(1);
    while let Some(arg) = args.next() {
        if arg == "-N" {
            return args.next();
        }
        if let Some(name) = arg.strip_prefix("-N").filter(|n| !n.is_empty()) {
            return Some(name.to_owned());
        }
    }
    env("SLURMD_NODENAME").filter(|n| !n.is_empty()).or_else(configured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_name_is_slurmds() {
        let name = |args: &[&str], env: Option<&str>| {
            let args = args.iter().map(ToString::to_string);
            node_name(args, &|_| env.map(str::to_owned), || Some("n9".to_owned()))
        };
        assert_eq!(name(&["slurmd", "-N", "n1"], Some("x")).as_deref(), Some("n1"));
        assert_eq!(name(&["slurmd", "-D", "-Nn2"], None).as_deref(), Some("n2"));
        assert_eq!(name(&["slurmd", "-D"], Some("n3")).as_deref(), Some("n3"));
        assert_eq!(name(&["slurmd", "-D"], None).as_deref(), Some("n9"));
    }
}
