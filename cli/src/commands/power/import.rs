//! `tessera lab power import`.

use power::COUNTERS;
use power_study::ncu;
use serde_json::json;

use super::args::ImportArgs;
use crate::outcome::{Failure, Outcome};
use crate::{files, options};

pub(super) fn run(args: &ImportArgs) -> Result<Outcome, Failure> {
    let (false, Some(name), Some(path)) = (args.command, &args.name, &args.profile) else {
        return Ok(Outcome::ok(ncu::command() + "\n"));
    };
    let gpu = options::gpu_model(&args.gpu)?;
    let allowed = |c: char| c.is_alphanumeric() || "._-:/".contains(c);
    if name.is_empty() || !name.chars().all(allowed) {
        return Err(Failure::new(format!("`{name}` is not a name: use letters, digits, . _ - : /")));
    }
    let file = path.display().to_string();
    let profile = ncu::parse(&file, &files::read_text(path)?).map_err(|e| Failure::of(&e))?;
    if let Some(found) = &profile.compute_capability
        && !generations(&gpu.arch).iter().any(|major| found.split('.').next() == Some(major))
    {
        let what = format!("{file}: the profile is of compute capability {found}, {} has another", gpu.key);
        return Err(Failure::new(what).hint("name the GPU model with --gpu"));
    }
    if args.json {
        let mut value = json!({ "app": name, "gpu": gpu.key, "source": "ncu", "kernels": profile.kernels });
        for (counter, percent) in COUNTERS.iter().zip(profile.features) {
            value[*counter] = json!(percent);
        }
        return Ok(Outcome::json(&value, 0));
    }
    let features = profile.features.map(|percent| percent.to_string()).join(",");
    Ok(Outcome::ok(format!("{name},{},ncu,{features}\n", gpu.key)))
}

/// Major numbers of the compute capabilities of an architecture.
fn generations(arch: &str) -> &'static [&'static str] {
    match arch {
        "ampere" => &["8"],
        "hopper" => &["9"],
        _ => &["10", "11", "12"],
    }
}
