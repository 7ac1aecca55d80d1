//! The layout as JSON.

use serde_json::{Value, json};

use crate::cluster_snapshot::NodeSeen;
use crate::fragmentation::Wholeness;
use crate::gpu_pieces::{Piece, PieceJob, Share};

/// `{"nodes": [{"name", "links", "gpus": [{"index", "model", "units", "pieces": […]}]}], "without_jobs", "places"}`; free units
/// are pieces too.
pub(crate) fn value(nodes: &[NodeSeen], whole: &Wholeness) -> Value {
    let places = whole.places.iter().map(|places| {
        json!({ "model": places.model, "shape": places.shape.to_string(), "now": places.now, "packed": places.packed })
    });
    json!({
        "nodes": nodes.iter().map(node).collect::<Vec<_>>(),
        "without_jobs": { "gpus": whole.gpus, "of_gpus": whole.of_gpus, "nodes": whole.nodes, "of_nodes": whole.of_nodes },
        "places": places.collect::<Vec<_>>(),
    })
}

/// Writes a node, as `tessera node status --json` has it too.
pub(crate) fn node(seen: &NodeSeen) -> Value {
    let gpus = seen.gpus.iter().flatten().enumerate().map(|(index, gpu)| {
        let pieces: Vec<Value> = gpu.pieces.iter().map(piece).collect();
        json!({ "index": index, "model": gpu.model.key, "units": gpu.model.placement_units, "pieces": pieces })
    });
    let gpus: Vec<Value> = gpus.collect();
    json!({ "name": seen.name, "links": seen.links, "note": seen.note, "gpus": gpus })
}

fn piece(piece: &Piece) -> Value {
    json!({
        "start": piece.start, "size": piece.size, "owner": piece.owner.name(), "profile": piece.profile,
        "jobs": piece.jobs.iter().map(job).collect::<Vec<_>>(), "more_jobs": piece.more,
    })
}

fn job(job: &PieceJob) -> Value {
    let mut value = match job.share {
        Some(Share::Mps(mem_mib, threads)) => {
            json!({ "id": job.id.0, "mem_mib": mem_mib, "threads": threads })
        }
        Some(Share::Compute(slices, mem_mib)) => {
            json!({ "id": job.id.0, "mem_mib": mem_mib, "compute_slices": slices })
        }
        Some(Share::Seats(seats)) => json!({ "id": job.id.0, "seats": seats }),
        None => json!({ "id": job.id.0 }),
    };
    if let Some(task) = &job.task {
        value["task"] = task.as_str().into();
    }
    if let Some(user) = &job.user {
        value["user"] = user.as_str().into();
    }
    value
}
