//! Power budgets, and whether the limits of this node's GPUs are those that the budgets count with.

use gpu_node::{GpuPower, GpuPowerView, driver_version, power_status};
use node_state::{PowerBudget, PowerRange};
use power_cap::{AloneError, choose_alone};
use site_config::SiteConfig;

use super::answers::SlurmAnswers;
use super::findings::Findings;
use crate::commands::power::budgets::committed;
use crate::local_node::Local;

/// Reports the budgets in which more is committed than they allow; only those with one of these nodes.
pub(super) fn budgets(slurm: &SlurmAnswers, names: &[&str], config: &SiteConfig, findings: &mut Findings) {
    let ours = |budget: &&PowerBudget| budget.nodes.iter().any(|node| names.contains(&node.as_str()));
    for budget in config.power_budgets.iter().filter(ours) {
        let PowerBudget { name, watts, .. } = budget;
        match committed(budget, &slurm.layouts) {
            None => findings.bad(format!(
                "power budget {name}: slurmctld does not show what its GPUs may draw: it works with another tessera.toml, or \
                 leaves a node of it to Slurm"
            )),
            Some(sum) if sum > *watts => findings.bad(format!(
                "power budget {name}: {sum} W are committed, {watts} W allowed: no job starts there until others end"
            )),
            Some(sum) => findings.group(format!("power budget {name}: {sum} of {watts} W are committed"), |_| {}),
        }
    }
}

/// The driver branch of a version: `535` of `535.104.05`.
fn branch(version: &str) -> &str {
    version.split('.').next().unwrap_or(version)
}

/// Warns of a model that was measured under another branch of the driver: clocks and limits may follow other rules.
fn other_driver(node: &str, measured: &str, has: &str) -> Option<String> {
    (branch(measured) != branch(has)).then(|| {
        format!(
            "{node}: its power model was measured under driver {measured}, the node has {has}: fit one to new runs, or compare \
             a few of them and note the new driver with `tessera lab power fit --driver`"
        )
    })
}

/// Warns of a model without what `--gpu-power=auto` needs: runs of applications alone on all compute slices.
fn without_auto(node: &str, model: &power::Model) -> Option<String> {
    let slices = geometry::Model::find(model.gpu())?.compute_slices;
    // Only whether there are such runs matters, so any counters and any alpha will do.
    match choose_alone(model, slices, &model.range().min, 0.0, false) {
        Err(AloneError::NoRuns(_)) => Some(format!(
            "{node}: --gpu-power=auto never chooses a cap there: its power model has no runs alone on {slices}g or {slices}c; \
             `tessera lab power calibrate`, called again for the same directory, measures them and fits the model again"
        )),
        _ => None,
    }
}

/// Checks this node's power model: whether a job's cap can be chosen by it, and whether these GPUs take every cap that it was
/// calibrated with.
pub(super) fn model(local: &Local<'_>, findings: &mut Findings) {
    let (name, Some(model)) = (&local.name, &local.spec.power.model) else { return };
    let gpus = match power_status(&local.settings) {
        Ok(gpus) => gpus,
        Err(e) => return findings.bad(format!("{name}: {}", error_chain::with_causes(&e))),
    };
    let whole = match power_study::Model::from_json(model.text()) {
        Ok(whole) => whole,
        Err(e) => return findings.bad(format!("{name}: its power model: {e}")),
    };
    without_auto(name, model).into_iter().for_each(|why| findings.bad(why));
    if let Some(measured) = whole.driver() {
        match driver_version(&local.settings) {
            Ok(has) => other_driver(name, measured, &has).into_iter().for_each(|why| findings.bad(why)),
            Err(e) => findings.bad(format!("{name}: {}", error_chain::with_causes(&e))),
        }
    }
    findings.group(format!("{name}: its GPUs take the caps of its power model"), |f| {
        for view in &gpus {
            let Some((least, most)) = view.power.as_ref().ok().and_then(|power| power.range_mw) else { continue };
            let takes = |watts: u32| (least..=most).contains(&(watts * 1000));
            if let Some(cap) = model.caps().iter().find(|cap| !takes(cap.watts())) {
                f.bad(format!(
                    "{name}: GPU {}: takes limits of {} to {} W, its power model may choose {cap}: fit one to runs on this GPU",
                    view.gpu,
                    least / 1000,
                    most / 1000
                ));
            }
        }
    });
}

/// Checks that this node's GPUs draw no more than its budgets count. Another check compares the limits that they take with the file's.
pub(super) fn limits(local: &Local<'_>, findings: &mut Findings) {
    let name = &local.name;
    let (true, Some(range)) = (local.settings.in_power_budget, local.spec.power.range()) else { return };
    match power_status(&local.settings) {
        Err(e) => findings.bad(format!("{name}: {}", error_chain::with_causes(&e))),
        Ok(gpus) => {
            findings.group(format!("{name}: power limits are those that its budgets count with"), |f| {
                gpus.iter().for_each(|gpu| of_gpu(name, gpu, range, f));
            })
        }
    }
}

/// Names the GPUs whose driver forgets a limit as soon as no program has them open, where the site or a job limits power.
pub(super) fn persistence(local: &Local<'_>, findings: &mut Findings) {
    let (name, power) = (&local.name, &local.spec.power);
    let site_caps = local.settings.in_power_budget || power.cap_w.is_some() || power.model.is_some();
    // Another check says why the driver does not answer.
    let views = power_status(&local.settings).unwrap_or_default();
    forgetful(name, site_caps, &views).into_iter().for_each(|why| findings.bad(why));
}

/// Says what follows for the GPUs in `views` that have no persistence mode; `None`: nothing, or the driver does not say it.
fn forgetful(node: &str, site_caps: bool, views: &[GpuPowerView]) -> Option<String> {
    let is_capped = |view: &&GpuPowerView| site_caps || view.jobs.iter().any(|(_, cap)| cap.is_some());
    let forgets =
        |view: &&GpuPowerView| view.power.as_ref().is_ok_and(|power| power.is_persistent == Some(false));
    let gpus = views.iter().filter(is_capped).filter(forgets).map(|view| view.gpu.to_string());
    let gpus: Vec<String> = gpus.collect();
    let s = if gpus.len() == 1 { "" } else { "s" };
    (!gpus.is_empty()).then(|| {
        format!(
            "{node}: persistence mode is off on GPU{s} {}: the driver forgets a power cap as soon as no program has the GPU open, so \
             a job may run without its cap; start nvidia-persistenced, before slurmd",
            gpus.join(", ")
        )
    })
}

fn of_gpu(node: &str, view: &GpuPowerView, range: PowerRange, findings: &mut Findings) {
    let PowerRange { cap_w, idle_w } = range;
    let place = format!("{node}: GPU {}", view.gpu);
    let GpuPower { found_mw, draw_mw, .. } = match &view.power {
        Ok(power) => power,
        Err(why) => return findings.bad(format!("{place}: {why}")),
    };
    let watts = |mw: u32| f64::from(mw) / 1000.0;
    if *found_mw > u32::from(cap_w) * 1000 {
        findings.bad(format!(
            "{place}: its power limit is {} W, cap_w = {cap_w} is less: a job whose limit is not set could draw more than its \
             budget counts",
            watts(*found_mw)
        ));
    }
    // What no journal knows may be anything: only a draw above the highest idle one is told.
    if view.jobs.is_empty() && *draw_mw > u32::from(idle_w) * 1000 {
        findings.bad(format!(
            "{place}: draws {:.0} W without a job, idle_w = {idle_w}: raise idle_w, or see who uses it",
            watts(*draw_mw)
        ));
    }
}

#[cfg(test)]
mod tests {
    use geometry::JobId;
    use node_driver::NvmlIndex;

    use super::*;
    use crate::commands::power::calibrated;

    fn view(found_w: u32, draw_w: u32, jobs: &[u32]) -> GpuPowerView {
        let power = GpuPower {
            found_mw: found_w * 1000,
            set_mw: found_w * 1000,
            enforced_mw: found_w * 1000,
            draw_mw: draw_w * 1000,
            range_mw: Some((100_000, 300_000)),
            counted_mj: None,
            is_persistent: Some(true),
        };
        let jobs = jobs.iter().map(|job| (JobId(*job), None)).collect();
        GpuPowerView { gpu: NvmlIndex(3), power: Ok(power), jobs, used: Vec::new() }
    }

    fn told(found_w: u32, draw_w: u32, jobs: &[u32]) -> String {
        let view = view(found_w, draw_w, jobs);
        let mut findings = Findings::default();
        of_gpu("n1", &view, PowerRange { cap_w: 250, idle_w: 50 }, &mut findings);
        findings.list.into_iter().map(|(_, what)| what + "\n").collect()
    }

    #[test]
    fn a_model_is_for_one_branch_of_the_driver() {
        assert_eq!(other_driver("n1", "535.104.05", "535.54.03"), None);
        insta::assert_snapshot!(other_driver("n1", "535.104.05", "550.54").unwrap(), @"n1: its power model was measured under driver 535.104.05, the node has 550.54: fit one to new runs, or compare a few of them and note the new driver with `tessera lab power fit --driver`");
    }

    #[test]
    fn a_model_without_runs_alone_on_all_slices_chooses_no_cap() {
        let gpu = geometry::Model::find("a100-40gb").unwrap();
        let (counters, runs) = calibrated();
        let mut file = power_study::fit_best(gpu, &counters, &runs).unwrap().to_json();
        let why = |file: &serde_json::Value| {
            without_auto("n1", &power::Model::from_json(&file.to_string()).unwrap())
        };
        insta::assert_snapshot!(why(&file).unwrap(), @"n1: --gpu-power=auto never chooses a cap there: its power model has no runs alone on 7g or 7c; `tessera lab power calibrate`, called again for the same directory, measures them and fits the model again");
        for row in file["solo"].as_array_mut().unwrap().iter_mut().filter(|row| row["part"] == "4c") {
            row["part"] = "7g".into();
        }
        assert_eq!(why(&file), None);
    }

    #[test]
    fn limits_must_be_those_that_budgets_count_with() {
        assert_eq!(told(250, 40, &[]), "");
        assert_eq!(told(200, 240, &[7]), "");
        insta::assert_snapshot!(told(300, 60, &[]), @r"
        n1: GPU 3: its power limit is 300 W, cap_w = 250 is less: a job whose limit is not set could draw more than its budget counts
        n1: GPU 3: draws 60 W without a job, idle_w = 50: raise idle_w, or see who uses it
        ");
    }

    #[test]
    fn a_gpu_that_forgets_its_limit_is_named_if_anything_limits_it() {
        let with = |gpu, is_persistent, cap| {
            let mut view = view(250, 40, &[7]);
            view.gpu = NvmlIndex(gpu);
            view.jobs[0].1 = cap;
            view.power.as_mut().unwrap().is_persistent = is_persistent;
            view
        };
        let all = [
            with(0, Some(false), None),
            with(1, Some(true), Some(200)),
            with(2, None, Some(200)),
            with(3, Some(false), Some(200)),
        ];
        let said = |site_caps, views: &[GpuPowerView]| forgetful("n1", site_caps, views);
        assert_eq!(said(false, &all[..3]), None);
        insta::assert_snapshot!(said(false, &all).unwrap(), @"n1: persistence mode is off on GPU 3: the driver forgets a power cap as soon as no program has the GPU open, so a job may run without its cap; start nvidia-persistenced, before slurmd");
        assert!(said(true, &all).unwrap().starts_with("n1: persistence mode is off on GPUs 0, 3: "));
    }
}
