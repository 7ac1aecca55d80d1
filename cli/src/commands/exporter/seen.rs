//! What the exporter saw of the cluster when it last looked.

use std::time::Instant;

use geometry::Model;
use protocol::Layout;
use protocol::layout::GpuLayout;
use protocol::wire::parse_request;
use protocol::{AdminComment, Isolation};
use site_config::SiteConfig;

use crate::outcome::Failure;
use crate::render::colour::Owner;
use crate::render::layout::pieces::{self, Piece};
use crate::slurm::squeue::Job;
use crate::slurm::{scontrol, sinfo, squeue};
use crate::{clock, published};

/// The cluster at one moment.
pub(super) struct Seen {
    /// The nodes of tessera.toml in its order.
    pub(super) nodes: Vec<NodeSeen>,
    /// All jobs that Slurm knows, ended ones included.
    pub(super) jobs: Vec<Job>,
    /// Seconds since 1970.
    pub(super) at: u64,
    /// Seconds that looking took.
    pub(super) took_s: f64,
}

/// One node.
pub(super) struct NodeSeen {
    pub(super) name: String,
    /// The interconnect's name.
    pub(super) links: String,
    /// Whether Slurm starts jobs there.
    pub(super) takes_jobs: bool,
    /// Its GPUs; the error: why their state is not known.
    pub(super) gpus: Result<Vec<GpuSeen>, String>,
}

/// One GPU.
pub(super) struct GpuSeen {
    pub(super) model: &'static Model,
    /// Its placement units in order, without gaps.
    pub(super) pieces: Vec<Piece>,
}

/// Asks Slurm.
pub(super) fn look(config: &SiteConfig) -> Result<Seen, Failure> {
    let begin = Instant::now();
    let layouts = scontrol::layouts()?;
    let usable = sinfo::usable()?;
    let jobs = squeue::jobs(None)?;
    let named = config.nodes.iter().flat_map(|spec| spec.names.iter().map(move |name| (spec, name)));
    let nodes = named.map(|(spec, name)| NodeSeen {
        name: name.clone(),
        links: spec.interconnect.clone(),
        takes_jobs: usable.contains_key(name),
        gpus: layouts.get(name).map_or_else(
            || Err("no layout published".to_owned()),
            |line| published::read(line, &spec.gpus).map(|layout| gpus(&spec.gpus, &layout)),
        ),
    });
    let nodes = nodes.collect();
    Ok(Seen { nodes, jobs, at: clock::epoch_seconds(), took_s: begin.elapsed().as_secs_f64() })
}

fn gpus(models: &[&'static Model], layout: &Layout) -> Vec<GpuSeen> {
    let seen =
        |(model, gpu): (&&'static Model, &GpuLayout)| GpuSeen { model, pieces: pieces::of(model, gpu) };
    models.iter().zip(&layout.gpus).map(seen).collect()
}

impl GpuSeen {
    /// What the GPU as a whole is: an owner's name, or `instances`.
    pub(super) fn state(&self) -> &'static str {
        match &self.pieces[..] {
            [piece] if piece.profile.is_none() => piece.owner.name(),
            _ => "instances",
        }
    }

    /// Compute slices by owner: of an instance its own, of free units what the instances leave. A GPU that cannot be cut is one.
    pub(super) fn slices(&self) -> Vec<(Owner, u32)> {
        let total = u32::from(self.model.compute_slices);
        let mut left = total;
        let mut all = Vec::new();
        for piece in &self.pieces {
            let profile = piece.profile.as_deref().and_then(|name| self.model.profile(name));
            match profile {
                Some(profile) => {
                    let slices = u32::from(profile.compute_slices).min(left);
                    left -= slices;
                    all.push((piece.owner, slices));
                }
                None if self.pieces.len() == 1 => {
                    all.push((piece.owner, total));
                    left = 0;
                }
                None => {}
            }
        }
        if left > 0 {
            all.push((Owner::Free, left));
        }
        all
    }

    /// Compute slices that no job has, and those of the largest instance or whole GPU that could be made of them.
    pub(super) fn free(&self) -> (u32, u32) {
        let open = |owner: Owner| matches!(owner, Owner::Free | Owner::Idle);
        let free = self.slices().iter().filter(|(owner, _)| open(*owner)).map(|(_, n)| n).sum();
        let units = self.pieces.iter().filter(|p| open(p.owner));
        let units = units.flat_map(|p| p.start..p.start + p.size).fold(0_u16, |mask, unit| mask | 1 << unit);
        let fits = |start| move |profile: &&geometry::Profile| profile.at(start).mask() & !units == 0;
        let largest = self.model.profiles.iter().filter(|p| p.starts.iter().any(|s| fits(*s)(p)));
        let largest = largest.map(|p| u32::from(p.compute_slices)).max();
        let whole = u32::from(units.count_ones() == u32::from(self.model.placement_units));
        (free, largest.unwrap_or(whole * u32::from(self.model.compute_slices)))
    }

    /// Its instances: profile, first unit, and whether a job has it.
    pub(super) fn instances(&self) -> impl Iterator<Item = (&str, u8, bool)> {
        self.pieces.iter().filter_map(|p| Some((p.profile.as_deref()?, p.start, p.owner != Owner::Idle)))
    }
}

/// What kind of GPUs a job asked Tessera for; `None`: it asked for nothing of ours.
pub(super) fn kind(job: &Job) -> Option<&'static str> {
    let asks = AdminComment::parse(&job.comment).asks?;
    Some(match parse_request(&asks).ok()?.isolation {
        Isolation::Auto => "auto",
        Isolation::Mig(_) => "mig",
        Isolation::Mps => "mps",
        Isolation::Tasks { .. } => "tasks",
        Isolation::Whole => "whole",
        Isolation::None => return None,
    })
}
