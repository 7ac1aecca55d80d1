//! Compares what Slurm says with what `tessera.toml` says.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use protocol::layout::{ConfigInForce, UNFIT};
use protocol::parse_layout;
use site_config::SiteConfig;

use super::findings::Findings;
use crate::published;
use crate::slurm::command::run;
use crate::slurm::scontrol;

/// Slurm's answers, asked once.
pub(crate) struct Slurm {
    /// `scontrol show config`, by lower-case key.
    settings: HashMap<String, String>,
    /// Each node's `Gres`.
    gres: HashMap<String, String>,
    /// Each node's published layout.
    pub(crate) layouts: HashMap<String, String>,
}

impl Slurm {
    /// The text of gres.conf in slurm.conf's directory; `None` if it cannot be read on this machine.
    pub(crate) fn gres_conf(&self) -> Option<String> {
        let slurm_conf = Path::new(self.settings.get("slurm_conf")?);
        fs::read_to_string(slurm_conf.with_file_name("gres.conf")).ok()
    }
}

/// `None`, with a finding, where Slurm does not answer.
pub(crate) fn ask(findings: &mut Findings) -> Option<Slurm> {
    let answers = run("scontrol", &["show", "config"])
        .and_then(|config| Ok((config, run("scontrol", &["show", "nodes"])?)));
    match answers {
        Ok((config, nodes)) => {
            let (gres, layouts) = (scontrol::field_by_node(&nodes, "Gres="), scontrol::layouts_in(&nodes));
            Some(Slurm { settings: settings_in(&config), gres, layouts })
        }
        Err(e) => {
            findings.bad(format!("Slurm: {}", e.what()));
            None
        }
    }
}

fn settings_in(text: &str) -> HashMap<String, String> {
    let pair = |l: &str| l.split_once('=').map(|(k, v)| (k.trim().to_lowercase(), v.trim().to_owned()));
    text.lines().filter_map(pair).collect()
}

/// Whether slurm.conf loads Tessera.
pub(crate) fn settings(slurm: &Slurm, findings: &mut Findings) {
    let get = |key: &str| slurm.settings.get(key).map_or("", String::as_str);
    let has = |key: &str, word: &str| get(key).split(',').any(|w| w.trim().eq_ignore_ascii_case(word));
    findings.group("Slurm: settings and plugins", |f| {
        let mut want = |key: &str, word: &str, name: &str| {
            if !has(key, word) {
                f.bad(format!("slurm.conf: {name} = {} lacks {word}", get(key)));
            }
        };
        want("selecttype", "select/cons_tres", "SelectType");
        want("jobsubmitplugins", "tessera", "JobSubmitPlugins");
        want("grestypes", "gpu", "GresTypes");
        want("grestypes", "shard", "GresTypes");
        want("prologflags", "Alloc", "PrologFlags");
        let dirs: Vec<PathBuf> =
            get("plugindir").split(':').filter(|d| !d.is_empty()).map(PathBuf::from).collect();
        plugins(&dirs, f);
        plugstack(Path::new(get("plugstackconfig")), f);
    });
}

/// Whether slurmctld works with the file as it is, by what it publishes.
pub(crate) fn controllers_file(slurm: &Slurm, findings: &mut Findings) {
    let with = |version: ConfigInForce| {
        let of = |line: &String| parse_layout(line.trim()).is_ok_and(|l| l.config == version);
        slurm.layouts.values().any(of)
    };
    if with(ConfigInForce::LastGood) {
        findings.bad(
            "slurmctld works with the last good version of tessera.toml: correct its file, then `scontrol reconfigure`",
        );
    }
    if with(ConfigInForce::Bad) {
        findings.bad(
            "slurmctld knows no good version of tessera.toml and leaves GPUs to Slurm: correct its file, then `scontrol \
             reconfigure`",
        );
    }
}

/// Slurm takes the first file of a name in `PluginDir`: ours must come before the real cons_tres, which must be there.
fn plugins(dirs: &[PathBuf], findings: &mut Findings) {
    let shown: Vec<String> = dirs.iter().map(|d| d.display().to_string()).collect();
    let shown = shown.join(":");
    let select: Vec<PathBuf> =
        dirs.iter().map(|d| d.join("select_cons_tres.so")).filter(|p| p.is_file()).collect();
    let ours = |p: &PathBuf| is_ours(p);
    match select.iter().position(ours) {
        None => findings.bad(format!("PluginDir = {shown} has no select_cons_tres.so of Tessera's")),
        Some(0) if select.len() == 1 => {
            findings.bad(format!(
                "PluginDir = {shown} has Tessera's select_cons_tres.so alone: Slurm's own is missing"
            ));
        }
        Some(0) => {}
        Some(_) => findings.bad(format!(
            "PluginDir = {shown}: {} is found first, Tessera's directory must stand before it",
            select[0].display()
        )),
    }
    for name in ["job_submit_tessera.so", "spank_tessera.so"] {
        if !dirs.iter().any(|d| d.join(name).is_file()) {
            findings.bad(format!("PluginDir = {shown} has no {name}"));
        }
    }
}

/// Only our select plugin knows the name of the variable that carries placements.
fn is_ours(path: &PathBuf) -> bool {
    let needle = protocol::wire::PLACEMENT_ENV.as_bytes();
    fs::read(path).is_ok_and(|bytes| bytes.windows(needle.len()).any(|w| w == needle))
}

fn plugstack(path: &Path, findings: &mut Findings) {
    match fs::read_to_string(path) {
        Err(e) => findings.bad(format!("PlugStackConfig {}: {e}", path.display())),
        Ok(text) => {
            let loads = |l: &str| !l.trim_start().starts_with('#') && l.contains("spank_tessera.so");
            // The line may be in an included file, which is not read here.
            if !text.lines().any(|l| loads(l) || l.trim_start().starts_with("include ")) {
                findings.bad(format!("{} does not load spank_tessera.so", path.display()));
            }
        }
    }
}

/// Whether Slurm counts what `tessera.toml` describes, and publishes a layout.
pub(crate) fn node(slurm: &Slurm, name: &str, config: &SiteConfig, findings: &mut Findings) {
    let Some(spec) = config.node(name) else { return };
    let gpus = u32::try_from(spec.gpus.len()).unwrap_or(u32::MAX);
    let shards: u32 = spec.gpus.iter().map(|m| m.shards()).sum();
    findings.group(format!("{name}: Slurm counts gpu:{gpus} and shard:{shards}, and shows a layout"), |f| {
        let Some(gres) = slurm.gres.get(name) else {
            f.bad(format!("{name}: Slurm has no such node"));
            return;
        };
        for (kind, want) in [("gpu", gpus), ("shard", shards)] {
            let has = count(gres, kind);
            if has != want {
                f.bad(format!("{name}: Slurm counts {kind}:{has}, tessera.toml comes to {kind}:{want}"));
            }
        }
        if count(gres, "mps") > 0 {
            f.bad(format!("{name}: has gres/mps beside Tessera: the node is left to Slurm alone; remove mps from its Gres="));
        }
        if config.not_partitioned.iter().any(|n| n == name) {
            f.bad(format!(
                "{name}: gres.conf has AutoDetect, with which slurmd takes MIG instances for GPUs: its GPUs are never \
                 partitioned; list them with File= and AutoDetect=off, or run `tessera node hand-over` there before \
                 slurmd starts again: with instances left, Slurm drains the node"
            ));
        }
        match slurm.layouts.get(name) {
            None => f.bad(format!(
                "{name}: no layout published: is Tessera's select plugin loaded, or did it leave the node to Slurm \
                 (slurmctld's log)?"
            )),
            Some(line) if line.starts_with(UNFIT) => {
                f.bad(format!("{name}: takes no jobs with GPUs: {}", &line[UNFIT.len()..]));
            }
            Some(line) => {
                if let Err(why) = published::read(line, &spec.gpus) {
                    f.bad(format!("{name}: published layout: {why}"));
                }
            }
        }
    });
}

/// The entries of a node's GRES, without their parentheses.
fn entries(gres: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    let parts = gres.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && c == ','
    });
    parts.map(|part| part.split('(').next().unwrap_or_default())
}

/// The number of a GRES: `gpu:a100:8(S:0-1),shard:320` has 8 `gpu`.
fn count(gres: &str, kind: &str) -> u32 {
    let number = |part: &str| {
        let mut words = part.split(':');
        (words.next() == Some(kind)).then(|| words.next_back().and_then(|n| n.parse().ok()).unwrap_or(1_u32))
    };
    entries(gres).filter_map(number).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gres_are_counted() {
        assert_eq!(count("gpu:a100:8(S:0-1),shard:320(S:0,1)", "gpu"), 8);
        assert_eq!(count("gpu:a100:4,gpu:h100:2,shard:9", "gpu"), 6);
        assert_eq!(count("(null)", "shard"), 0);
        assert_eq!(count("gpu:h100:no_consume:4(S:0,1),shard:9", "gpu"), 4);
    }

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
}
