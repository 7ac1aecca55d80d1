//! `tessera profiles`: the GPU models known and their MIG profiles.

use clap::Args;
use geometry::size::display_gb;
use geometry::{Model, NoMig, Profile};
use serde_json::json;

use crate::options;
use crate::outcome::{Failure, Outcome};
use crate::render::table;

/// List GPU models and their MIG profiles
///
/// Without MODEL, lists every known model. With MODEL, lists memory, SMs, shards and placements of each of its profiles. A
/// placement is a memory slice where an instance may start, with the number of memory slices it takes.
#[derive(Args)]
pub(crate) struct ProfilesArgs {
    /// A model's key or NVML name, such as a100-40gb or "NVIDIA A100-SXM4-40GB"
    pub(crate) model: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &ProfilesArgs) -> Result<Outcome, Failure> {
    let Some(name) = &args.model else { return Ok(all(args.json)) };
    let model = options::gpu_model(name)?;
    Ok(if args.json { Outcome::json(&model_json(model), 0) } else { Outcome::ok(one(model)) })
}

fn all(as_json: bool) -> Outcome {
    if as_json {
        return Outcome::json(&Model::all().iter().map(model_json).collect(), 0);
    }
    let mut rows = vec![["MODEL", "MEMORY", "SMs", "SHARDS", "PROFILES"].map(str::to_owned).to_vec()];
    for m in Model::all() {
        let plain = m.profiles.iter().filter(|p| !p.is_variant()).map(|p| p.name.as_str());
        rows.push(vec![
            m.key.clone(),
            display_gb(m.total_memory_mib),
            m.full_gpu_sm.to_string(),
            m.shards().to_string(),
            if m.has_mig() { plain.collect::<Vec<_>>().join(" ") } else { format!("(MIG: {})", none(m)) },
        ]);
    }
    let text = table::render(&rows, &[1, 2, 3]);
    Outcome::ok(format!(
        "{text}\n`tessera profiles MODEL` shows memory, SMs and placements of each profile.\n"
    ))
}

/// Why a model has no profiles.
fn none(model: &Model) -> &'static str {
    match model.mig {
        Err(NoMig::Unknown) => "its geometry is not known",
        _ => "none",
    }
}

fn one(model: &Model) -> String {
    if !model.has_mig() {
        return whole_only(model);
    }
    let head = ["PROFILE", "ID", "MEMORY", "", "SMs", "SHARDS", "MOST", "STARTS (MEMORY SLICES)"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(model.profiles.iter().map(|p| {
        let starts: Vec<String> = p.starts.iter().map(ToString::to_string).collect();
        vec![
            p.name.clone(),
            p.id.to_string(),
            format!("{}{}", if p.memory_known { "" } else { "~" }, display_gb(p.memory_mib)),
            gib(p.memory_mib),
            p.sm.to_string(),
            model.profile_shards(p).to_string(),
            p.max_instances.to_string(),
            format!("{} ({})", starts.join(" "), p.size),
        ]
    }));
    let estimated = model.profiles.iter().any(|p| !p.memory_known);
    let note = if estimated { "~ a cautious estimate: this memory has not been measured\n" } else { "" };
    format!(
        "{}: {}\n{} ({}), {} SMs, {} compute slices, {} memory slices, {} shards\n\n{}{note}",
        model.key,
        model.names.join(", "),
        display_gb(model.total_memory_mib),
        gib(model.total_memory_mib),
        model.full_gpu_sm,
        model.compute_slices,
        model.placement_units,
        model.shards(),
        table::render(&rows, &[1, 2, 3, 4, 5, 6])
    )
}

fn whole_only(model: &Model) -> String {
    format!(
        "{}: {}\n{} ({}), {} SMs, {} shards\n\nMIG: {}. The GPU serves whole jobs and MPS shares, which can have {}.\n",
        model.key,
        model.names.join(", "),
        display_gb(model.total_memory_mib),
        gib(model.total_memory_mib),
        model.full_gpu_sm,
        model.shards(),
        none(model),
        display_gb(model.usable_mib()),
    )
}

fn gib(mib: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "GPU memory in MiB is far below 2^53")]
    let gib = mib as f64 / 1024.0;
    format!("{gib:.1} GiB")
}

fn model_json(model: &Model) -> serde_json::Value {
    let profile = |p: &Profile| {
        json!({
            "name": p.name, "id": p.id.0, "memory_mib": p.memory_mib, "memory_known": p.memory_known, "sm": p.sm,
            "compute_slices": p.compute_slices, "max_instances": p.max_instances, "shards": model.profile_shards(p),
            "size": p.size, "starts": p.starts.iter().map(|s| s.0).collect::<Vec<_>>(),
        })
    };
    json!({
        "key": model.key, "names": model.names, "memory_mib": model.total_memory_mib, "sm": model.full_gpu_sm,
        "compute_slices": model.compute_slices, "placement_units": model.placement_units, "shards": model.shards(),
        "usable_mib": model.usable_mib(),
        "profiles": model.profiles.iter().map(profile).collect::<Vec<_>>(),
    })
}
