//! Tessera's files on this machine: where Slurm finds them, and of which version they are.

use std::fs;
use std::path::{Path, PathBuf};

use plugin_stamp::said;
use site_config::SiteConfig;
use slurm_tables::Version;

use super::answers::SlurmAnswers;
use super::findings::Findings;
use super::versions::{self, Installed, Needs};
use crate::commands::setup::Plugstack;
use crate::slurm::version;
use crate::this_machine::{host, this_node};

/// The file of both select plugins, Slurm's and ours.
const SELECT: &str = "select_cons_tres.so";

/// The file of both plugins for NVML, Slurm's and ours.
const GPU: &str = "gpu_nvml.so";
/// A symbol of ours.
const MARKER: &str = "tessera_version";

/// Checks that the installed files are of one version and fit the Slurm that runs.
pub(super) fn check(slurm: &SlurmAnswers, config: &SiteConfig, findings: &mut Findings) {
    let dirs = slurm.plugin_dirs();
    let ours = |name: &str| {
        let mut paths = dirs.iter().map(|dir| dir.join(name)).filter(|path| path.is_file());
        paths.find(|path| name != SELECT || is_ours(path, protocol::wire::PLACEMENT_ENV))
    };
    let plugins = [
        (SELECT, Needs::Exact),
        ("job_submit_tessera.so", Needs::Exact),
        ("spank_tessera.so", Needs::Series),
    ];
    let plugins = plugins.into_iter().chain(slurm.accounting_files().map(|name| (name, Needs::Exact)));
    let mut files: Vec<(PathBuf, Needs)> =
        plugins.filter_map(|(name, needs)| Some((ours(name)?, needs))).collect();
    let here = this_node().unwrap_or_default();
    let node = config.node(&here).map(|_| here.as_str());
    if let Some(node) = node.filter(|node| slurm.asks_nvml(node)) {
        match dirs.iter().map(|dir| dir.join(GPU)).find(|path| path.is_file()) {
            Some(first) if is_ours(&first, MARKER) => files.push((first, Needs::Exact)),
            Some(_) => findings.bad(no_gpu_plugin(node, &dirs)),
            None => {}
        }
    }
    let mut broker = None;
    if let (Some(node), Some(_)) = (node, &config.tasks) {
        let paths = node_jobs::Settings::of(config, node).node;
        files.extend([(paths.task_library, Needs::Nothing)].into_iter().filter(|(path, _)| path.is_file()));
        broker = versions::of_program(&paths.task_broker);
    }
    let mut installed: Vec<Installed> = broker.into_iter().collect();
    for (path, needs) in files {
        match Installed::read(&path, needs) {
            Ok(library) => installed.push(library),
            Err(why) => findings.bad(why),
        }
    }
    versions::compare(&installed, &slurm.daemons_here(&host(), node, version::known), findings);
    if let Ok(slurmctld) = said::of_release(slurm.setting("slurm_version")) {
        let others = slurm.slurmds.iter().filter(|(name, _)| Some(name.as_str()) != node);
        let known = others.filter(|(name, _)| config.node(name).is_some());
        let mut nodes: Vec<(String, Version)> = known.map(|(n, v)| (n.clone(), *v)).collect();
        nodes.sort_by(|a, b| a.0.cmp(&b.0));
        versions::other_series(slurmctld, &nodes, findings);
    }
}

/// Slurm takes the first file of a name in `PluginDir`: ours must come before the real cons_tres, which must be there.
pub(super) fn plugins(dirs: &[PathBuf], findings: &mut Findings) {
    let shown = shown(dirs);
    let select: Vec<PathBuf> = dirs.iter().map(|d| d.join(SELECT)).filter(|p| p.is_file()).collect();
    let ours = |p: &PathBuf| is_ours(p, protocol::wire::PLACEMENT_ENV);
    match select.iter().position(ours) {
        None => findings.bad(format!("PluginDir = {shown} has no select_cons_tres.so of Tessera's")),
        Some(0) if select.len() == 1 => {
            findings.bad(format!(
                "PluginDir = {shown} has Tessera's select_cons_tres.so alone: Slurm's own is missing"
            ));
        }
        Some(0) => {}
        Some(_) => findings.bad(format!(
            "PluginDir = {shown}: {} is found first: put Tessera's directory before it",
            select[0].display()
        )),
    }
    for name in ["job_submit_tessera.so", "spank_tessera.so"] {
        if !dirs.iter().any(|d| d.join(name).is_file()) {
            findings.bad(format!("PluginDir = {shown} has no {name}"));
        }
    }
}

/// Tells whether a plugin is ours and not Slurm's own of the same name: only our select plugin knows the variable that carries
/// placements, and only our GPU plugin has the symbol [`MARKER`].
fn is_ours(path: &Path, needle: &str) -> bool {
    let needle = needle.as_bytes();
    fs::read(path).is_ok_and(|bytes| bytes.windows(needle.len()).any(|w| w == needle))
}

fn shown(dirs: &[PathBuf]) -> String {
    dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(":")
}

fn no_gpu_plugin(node: &str, dirs: &[PathBuf]) -> String {
    format!(
        "{node}: gres.conf has AutoDetect, but PluginDir = {} has Slurm's own {GPU} first: at its next start slurmd takes MIG \
         instances for GPUs, and Slurm drains the node. Run `tessera setup --plugins-only --apply` there, or list the GPUs with File= \
         and AutoDetect=off",
        shown(dirs)
    )
}

/// Checks that plugstack.conf, or a file that it includes, loads Tessera's plugin. `slurm_conf` is this machine's.
pub(super) fn plugstack(slurm_conf: Option<&Path>, findings: &mut Findings) {
    let Some(slurm_conf) = slurm_conf else {
        return findings.skipped(
            "plugstack.conf: Slurm has no files on this machine, slurmctld sends them to each command",
        );
    };
    match Plugstack::read(slurm_conf) {
        Err(why) => findings.skipped(format!("plugstack.conf: {}", why.what())),
        Ok(Plugstack { path, plugins: None, .. }) => {
            findings.bad(format!("{} does not exist, so nothing loads spank_tessera.so", path.display()));
        }
        Ok(Plugstack { path, plugins: Some(plugins), includes }) => {
            if !plugins.iter().any(|plugin| plugin.ends_with("spank_tessera.so")) {
                let others = if includes { ", nor does a file that it includes" } else { "" };
                findings.bad(format!("{} does not load spank_tessera.so{others}", path.display()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_order_is_checked() {
        let dir = |name: &str| {
            let dir = std::env::temp_dir().join(format!("tessera-doctor-{}-{name}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            dir
        };
        let (ours, slurms) = (dir("ours"), dir("slurms"));
        for name in ["job_submit_tessera.so", "spank_tessera.so"] {
            fs::write(ours.join(name), "").unwrap();
        }
        fs::write(ours.join("select_cons_tres.so"), "..TESSERA_PLACEMENT..").unwrap();
        fs::write(slurms.join("select_cons_tres.so"), "..").unwrap();
        let said = |dirs: &[PathBuf]| {
            let mut findings = Findings::default();
            plugins(dirs, &mut findings);
            findings.list.into_iter().map(|(_, what)| what).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(said(&[ours.clone(), slurms.clone()]), "");
        assert!(said(&[slurms.clone(), ours.clone()]).contains("is found first"));
        assert!(said(std::slice::from_ref(&ours)).contains("Slurm's own is missing"));
        assert!(said(std::slice::from_ref(&slurms)).contains("no job_submit_tessera.so"));
        fs::remove_dir_all(ours).unwrap();
        fs::remove_dir_all(slurms).unwrap();
    }

    #[test]
    fn an_include_in_plugstack_conf_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let said = || {
            let mut findings = Findings::default();
            plugstack(Some(&dir.path().join("slurm.conf")), &mut findings);
            let said = findings.list.into_iter().map(|(_, what)| what).collect::<String>();
            said.replace(&dir.path().display().to_string(), "/e")
        };
        write("slurm.conf", "ClusterName=c\n");
        assert_eq!(said(), "/e/plugstack.conf does not exist, so nothing loads spank_tessera.so");
        write("plugstack.conf", "# required spank_tessera.so\ninclude parts/*.conf\n");
        fs::create_dir(dir.path().join("parts")).unwrap();
        write("parts/pyxis.conf", "required /opt/spank_pyxis.so\n");
        assert_eq!(
            said(),
            "/e/plugstack.conf does not load spank_tessera.so, nor does a file that it includes"
        );
        write("parts/10-tessera.conf", "required /usr/lib/tessera/spank_tessera.so config=/e/tessera.toml\n");
        assert_eq!(said(), "");
        write("slurm.conf", "PlugStackConfig=/none/plugstack.conf\n");
        assert_eq!(said(), "/none/plugstack.conf does not exist, so nothing loads spank_tessera.so");
    }
}
