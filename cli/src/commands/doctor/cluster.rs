//! Compares what Slurm says with what `tessera.toml` says.

use decision_counts::decisions::Cached;
use decision_pages::decisions::{self as pages, Decisions};
use decision_pages::words;
use node_layout::parse_layout;
use node_layout::{ConfigInForce, OFF};
use protocol::node_word::UNFIT;
use shared_pages::{decisions, refusals_by_day};
use site_config::SiteConfig;

use super::answers::SlurmAnswers;
use super::counts::{count, counts_of};
use super::findings::Findings;
use super::out_of_service;
use super::slurms_files::SlurmsFiles;
use crate::layout_line;
use crate::sick_words::sick_words;
use crate::slurm::scontrol;
use crate::this_machine::host;

/// Checks that slurmctld counts its decisions for the exporter, and refusals by day for the history. Asks on its first machine alone: a second one may wait for its turn.
pub(crate) fn counts_decisions(slurm: &SlurmAnswers, findings: &mut Findings) {
    if !slurm.is_first_controller(&host()) {
        return;
    }
    let (name, state) = (slurm.setting("slurmuser"), slurm.setting("statesavelocation"));
    let user = scontrol::user_id(name);
    findings.group("slurmctld's counters of decisions", |f| match user {
        Some(user) => counters(state, user, f),
        None => f.bad(format!("`scontrol show config` gives no user id in SlurmUser = {name}")),
    });
    if let Some(page) = user.and_then(|user| pages::read(state, user).ok()) {
        kept(&page, findings);
    }
}

fn name(of: Cached) -> &'static str {
    match of {
        Cached::Requests => "requests",
        Cached::Answers => "answers",
        Cached::GpuSets => "sets of GPUs",
        Cached::Jobs => "jobs that it has met",
        Cached::NodeNames => "names of nodes",
    }
}

/// Says how much the plugins keep in slurmctld's memory, as far as they have said so, and complains of more than they may.
fn kept(page: &Decisions, findings: &mut Findings) {
    let said = Cached::ALL.map(|what| (name(what), page.kept(what)));
    let said: Vec<_> = said.into_iter().filter(|(_, [_, most])| *most > 0).collect();
    if said.is_empty() {
        return;
    }
    let counts = said.iter().map(|(name, [now, most])| format!("{now} {name} (at most {most})"));
    findings.group(format!("slurmctld keeps {}", counts.collect::<Vec<_>>().join(", ")), |f| {
        for (name, [now, most]) in said.iter().filter(|(_, [now, most])| now > most) {
            f.bad(format!(
                "slurmctld keeps {now} {name}, and at most {most} are allowed: this is a bug of Tessera's; restart slurmctld, and \
                 report it"
            ));
        }
    });
}

/// Reads the pages of the slurmctld with this `StateSaveLocation`, which runs as `user`.
fn counters(state: &str, user: u32, findings: &mut Findings) {
    let of_decisions = pages::read(state, user);
    match of_decisions.as_ref().map(Decisions::placing) {
        Ok(Some(placing)) => {
            let why = words::off(placing).into_iter();
            why.for_each(|why| findings.bad(format!("slurmctld leaves all GPUs to Slurm: {why}")));
        }
        Ok(None) => findings.bad(
            "no slurmctld that runs here has loaded Tessera's select plugin: unless one on another machine is in charge, Slurm alone gives \
             out the GPUs; slurmctld's log says why",
        ),
        Err(_) => {}
    }
    let of_decisions = of_decisions.map(drop);
    let by_day = decision_pages::refusals_by_day::read(state, user).map(drop);
    for (read, path, lacks) in [
        (of_decisions, decisions::path(state), "`tessera exporter` shows no decisions and no rejections"),
        (by_day, refusals_by_day::path(state), "`tessera history` shows no refused submissions"),
    ] {
        if let Err(why) = read {
            findings.bad(format!(
                "{}: {why}: {lacks}; restart slurmctld, whose log says why if it cannot write there",
                path.display()
            ));
        }
    }
}

/// Checks that slurmctld works with the file as it is, by what it publishes.
pub(crate) fn controllers_file(slurm: &SlurmAnswers, findings: &mut Findings) {
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

/// Checks that Slurm counts what `tessera.toml` describes, shows a layout, and gives the node jobs, Tessera's too.
pub(crate) fn node(
    slurm: &SlurmAnswers,
    files: &SlurmsFiles,
    name: &str,
    config: &SiteConfig,
    findings: &mut Findings,
) {
    let (Some(spec), Some(want)) = (config.node(name), counts_of(name, config)) else { return };
    let [(_, gpus), (_, shards)] = want;
    findings.group(format!("{name}: Slurm counts gpu:{gpus} and shard:{shards}, and shows a layout"), |f| {
        let Some(gres) = slurm.gres.get(name) else {
            f.bad(format!("{name}: Slurm has no such node"));
            return;
        };
        for (kind, want) in want {
            let has = count(gres, kind);
            if has != want && !files.explain(name, kind, has) {
                f.bad(format!("{name}: Slurm counts {kind}:{has}, tessera.toml comes to {kind}:{want}"));
            }
        }
        files.check(slurm, name, config, f);
        out_of_service::check(slurm, name, f);
        if count(gres, "mps") > 0 {
            f.bad(format!("{name}: has gres/mps in its Gres=, so Tessera leaves the node to Slurm; remove mps there"));
        }
        if let Some(why) = slurm.standings.get(name).and_then(|standing| standing.why_not(name)) {
            f.bad(format!("{why}; until then no jobs with --gpu options start there"));
        }
        for sick in slurm.sick.get(name).into_iter().flatten() {
            f.bad(format!("{name}: {}; `tessera node health` there says what to do", sick_words(sick)));
        }
        match slurm.layouts.get(name) {
            None => f.bad(format!(
                "{name}: no layout published: is Tessera's select plugin loaded, or did it leave the node to Slurm \
                 (slurmctld's log)?"
            )),
            Some(line) if line.starts_with(UNFIT) => {
                f.bad(format!("{name}: takes no jobs with GPUs: {}", &line[UNFIT.len()..]));
            }
            Some(line) if line.trim() == OFF => f.bad(format!("{name}: {OFF}")),
            Some(line) => {
                if let Err(why) = layout_line::read(line, &spec.gpus) {
                    f.bad(format!("{name}: published layout: {why}"));
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use decision_counts::decisions::{MARK, SLOTS};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_slurmctld_keeps_is_counted_against_its_bounds() {
        let found = |pages: &[(Cached, [u64; 2])]| {
            let mut numbers = vec![0; SLOTS];
            numbers[0] = MARK;
            for (what, counts) in pages {
                what.slots().into_iter().zip(counts).for_each(|(slot, count)| numbers[slot] = *count);
            }
            let mut findings = Findings::default();
            kept(&Decisions::of(numbers).unwrap(), &mut findings);
            findings
                .list
                .into_iter()
                .map(|(result, said)| format!("{} {said}", result.word()))
                .collect::<Vec<_>>()
        };
        assert_eq!(found(&[]), [""; 0]);
        let names = (Cached::NodeNames, [3, 100_000]);
        assert_eq!(
            found(&[(Cached::Requests, [37, 1024]), names]),
            ["ok slurmctld keeps 37 requests (at most 1024), 3 names of nodes (at most 100000)"]
        );
        assert_eq!(
            found(&[(Cached::Answers, [9, 8]), names]),
            [
                "bad slurmctld keeps 9 answers, and at most 8 are allowed: this is a bug of Tessera's; restart slurmctld, and report it"
            ]
        );
    }

    #[test]
    fn both_pages_of_counters_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().to_str().unwrap();
        let found = || {
            let mut findings = Findings::default();
            counters(state, rustix::process::geteuid().as_raw(), &mut findings);
            findings.list.into_iter().map(|(_, said)| said).collect::<Vec<_>>()
        };
        let missing = found();
        assert!(
            missing.len() == 2 && missing[0].contains("`tessera exporter` shows no decisions"),
            "{missing:?}"
        );
        assert!(missing[1].contains("/dev/shm/tessera-days.") && missing[1].contains("`tessera history`"));
        // A page of the right size that anybody may write to, and one of another size.
        let page = refusals_by_day::path(state);
        let strange = |mode, size| {
            fs::write(&page, vec![0; size]).unwrap();
            fs::set_permissions(&page, PermissionsExt::from_mode(mode)).unwrap();
            let said = found().pop().unwrap();
            fs::remove_file(&page).unwrap();
            said
        };
        let said = [strange(0o666, 8192), strange(0o600, 100)];
        for said in &said {
            assert!(said.contains("/dev/shm/tessera-days.") && !said.contains("No such file"), "{said}");
        }
        assert_ne!(said[0], said[1]);
    }

    #[test]
    fn gres_of_all_types_add_up() {
        assert_eq!(count("gpu:a100:8(S:0-1),shard:320(S:0,1)", "gpu"), 8);
        assert_eq!(count("gpu:a100:4,gpu:h100:2,shard:9", "gpu"), 6);
        assert_eq!(count("(null)", "shard"), 0);
        assert_eq!(count("gpu:h100:no_consume:4(S:0,1),shard:9", "gpu"), 4);
    }
}
