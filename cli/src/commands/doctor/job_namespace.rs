//! Job namespaces of Slurm's in which MPS does not work.

use protocol::Isolation;
use site_config::SiteConfig;

use super::answers::SlurmAnswers;
use super::findings::Findings;
use crate::job_namespace::JobNamespace;

/// Reports that jobs do not have the node's `/dev/shm`, for `node` if this machine is one, else for all nodes.
pub(super) fn check(slurm: &SlurmAnswers, node: Option<&str>, config: &SiteConfig, findings: &mut Findings) {
    let mut named = JobNamespace::KEYS.iter().map(|key| (key, slurm.setting_of(key)));
    let found = named.find_map(|(key, value)| Some((format!("{key}={value}"), JobNamespace::of(value)?)));
    let Some((setting, namespace)) = found else { return };
    let all = || config.nodes.iter().flat_map(|spec| spec.names.iter().cloned()).collect();
    let names: Vec<String> = node.map_or_else(all, |node| vec![node.to_owned()]);
    let text = slurm.beside_slurm_conf(namespace.file());
    match namespace.told(&setting, text.as_deref(), &names) {
        Some((true, what)) if needs_mps(config) => findings.bad(what),
        Some((_, what)) => findings.skipped(what),
        None => {}
    }
}

/// Tells whether jobs may get an MPS share or GPU tasks without naming them.
fn needs_mps(config: &SiteConfig) -> bool {
    let defaults = &config.defaults;
    let mut kinds = [&defaults.isolation].into_iter().chain(&defaults.auto);
    config.tasks.is_some() || kinds.any(|kind| *kind == Isolation::Mps)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results for a site with these settings and this job_container.conf.
    fn said(slurm_conf: &str, file: &str, site: &str, node: Option<&str>) -> String {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("job_container.conf"), file).unwrap();
        let mut slurm = SlurmAnswers::of_config(slurm_conf);
        slurm.conf_here = Some(dir.path().join("slurm.conf"));
        let site = format!("{site}[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 1\n");
        let (config, _) = site_config::parse("t", &site, &|_| Err(std::io::ErrorKind::NotFound.into()));
        let mut findings = Findings::default();
        check(&slurm, node, &config.unwrap(), &mut findings);
        let first = |what: String| what.split(' ').take(2).collect::<Vec<_>>().join(" ");
        findings.list.into_iter().map(|(result, what)| format!("{} {}", result.word(), first(what))).collect()
    }

    #[test]
    fn a_shm_of_a_jobs_own_is_bad_where_jobs_get_shares_unasked() {
        let tmpfs = "JobContainerType        = job_container/tmpfs\n";
        let by_default = "bad n[1-2]: JobContainerType=job_container/tmpfs";
        assert_eq!(said(tmpfs, "BasePath=/a\n", "", None), by_default);
        assert_eq!(said(tmpfs, "BasePath=/a Dirs=/tmp\n", "", None), "");
        assert_eq!(said("JobContainerType        = (null)\n", "BasePath=/a\n", "", None), "");
        assert_eq!(said(tmpfs, "NodeName=n2 BasePath=/a\n", "", Some("n1")), "", "the other node");
        let no_shares = "[defaults]\nauto = [\"mig\", \"whole\"]\n";
        let skipped = "skip n[1-2]: NamespaceType=namespace/tmpfs";
        let namespace = "NamespaceType           = namespace/tmpfs\n";
        assert_eq!(said(namespace, "BasePath=/a\n", no_shares, None), skipped);
    }
}
