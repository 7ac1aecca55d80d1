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
    let known = capabilities(&gpu.arch);
    if let Some(found) = &profile.compute_capability
        && !known.is_empty()
        && !known.contains(&found.as_str())
    {
        let what = format!(
            "{file}: the profile is of compute capability {found}, {} has {}",
            gpu.key,
            known.join(" or ")
        );
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

/// Lists the compute capabilities of the GPUs of an architecture, as NVIDIA's CUDA programming guide has them; none of one that is not
/// known.
fn capabilities(arch: &str) -> &'static [&'static str] {
    match arch {
        "pascal" => &["6.0"],
        "pascal-gp102" | "pascal-gp104" => &["6.1"],
        "volta" => &["7.0"],
        "turing" | "turing-tu102" => &["7.5"],
        "ampere" => &["8.0"],
        "ampere-ga102" | "ampere-ga107" => &["8.6"],
        "ada" => &["8.9"],
        "hopper" => &["9.0"],
        "blackwell" => &["10.0", "10.3"],
        "blackwell-gb202" | "blackwell-gb203" => &["12.0"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use geometry::Model;

    use super::capabilities;

    #[test]
    fn every_model_has_a_compute_capability() {
        let missing = Model::all().iter().find(|model| capabilities(&model.arch).is_empty());
        assert_eq!(missing.map(|model| &model.key), None);
        let of = |key: &str| capabilities(&Model::find(key).unwrap().arch);
        assert_eq!(["a100-40gb", "a40-48gb", "l40s-48gb"].map(of), [["8.0"], ["8.6"], ["8.9"]]);
    }
}
