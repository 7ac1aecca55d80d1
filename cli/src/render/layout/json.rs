//! The layout as JSON.

use serde_json::{Value, json};

use super::Drawn;
use super::pieces::{self, Job, Piece, Share};

/// `{"nodes": [{"name", "links", "gpus": [{"index", "model", "units", "pieces": […]}]}]}`; free units are pieces too.
pub(crate) fn value(nodes: &[Drawn]) -> Value {
    json!({ "nodes": nodes.iter().map(node).collect::<Vec<_>>() })
}

/// One node, as `tessera node status --json` has it too.
pub(crate) fn node(drawn: &Drawn) -> Value {
    let gpus = drawn.gpus.iter().enumerate().map(|(index, (model, gpu))| {
        let pieces: Vec<Value> = pieces::of(model, gpu).iter().map(piece).collect();
        json!({ "index": index, "model": model.key, "units": model.placement_units, "pieces": pieces })
    });
    let gpus: Vec<Value> = gpus.collect();
    json!({ "name": drawn.name, "links": drawn.links, "note": drawn.note, "gpus": gpus })
}

fn piece(piece: &Piece) -> Value {
    json!({
        "start": piece.start, "size": piece.size, "owner": piece.owner.name(), "profile": piece.profile,
        "jobs": piece.jobs.iter().map(job).collect::<Vec<_>>(), "more_jobs": piece.more,
    })
}

fn job(job: &Job) -> Value {
    match job.share {
        Some(Share::Mps(mem_mib, threads)) => {
            json!({ "id": job.id.0, "mem_mib": mem_mib, "threads": threads })
        }
        Some(Share::Compute(slices, mem_mib)) => {
            json!({ "id": job.id.0, "mem_mib": mem_mib, "compute_slices": slices })
        }
        Some(Share::Seats(seats)) => json!({ "id": job.id.0, "seats": seats }),
        None => json!({ "id": job.id.0 }),
    }
}
