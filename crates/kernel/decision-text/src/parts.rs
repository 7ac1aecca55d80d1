//! The parts of a report as text.

use decision_report::report::{
    Candidate, ComputeScore, Fate, KindTried, SeatScore, SetScore, ShareClass, ShareScore, Starts, Takes,
};
use decision_report::{Cost, gbps, number, prediction};
use geometry::counted;

/// Says how the trial of a kind of isolation ended: what it takes, or why it gives nothing.
#[must_use]
pub fn outcome(tried: &KindTried) -> String {
    match tried.outcome {
        Ok(it) => takes(it),
        Err(Some(why)) => format!("not tried: {why}"),
        Err(None) => "nothing fits".to_owned(),
    }
}

pub(crate) fn takes(takes: Takes) -> String {
    match (takes.oversubscribed, takes.units) {
        (true, _) => "an oversubscribed device".to_owned(),
        (false, 0) => "a device already shared".to_owned(),
        (false, units) => format!("{units} of {} memory slices", takes.of_units),
    }
}

/// The starts, ascending: `0, 2`.
fn starts(starts: Starts) -> String {
    let starts: Vec<String> = (0..16).filter(|s| starts.0 >> s & 1 == 1).map(|s| s.to_string()).collect();
    starts.join(", ")
}

/// Writes a candidate with its GPU, its instances and its fate: `GPU 0 1g.10gb at 2: loses 6 placements`.
#[must_use]
pub fn candidate(candidate: &Candidate) -> String {
    let set = match candidate.fate {
        Fate::Set(score) => Some(score.gpus),
        Fate::Links { set, .. } => Some(topology::GpuSet::from_bits(set)),
        _ => None,
    };
    let place = match (set, &candidate.instances) {
        (Some(set), _) => format!("GPU {set}"),
        (None, Some((profile, at))) => {
            format!("GPU {} {} at {}", candidate.gpu, profile.name, starts(*at))
        }
        (None, None) => format!("GPU {}", candidate.gpu),
    };
    let created = match candidate.fate {
        Fate::Costs(cost) | Fate::Compute(ComputeScore { joins: false, cost, .. }) => Some(cost.created),
        Fate::Share(ShareScore { class: ShareClass::Open | ShareClass::Carve, cost, .. })
        | Fate::Seats(SeatScore { class: ShareClass::Open | ShareClass::Carve, cost, .. }) => {
            Some(cost.created)
        }
        _ => None,
    };
    let reuses = candidate.instances.is_some() && created == Some(0);
    let reuses = if reuses { ", reuses an idle instance" } else { "" };
    format!("{place}: {}{reuses}", fate(&candidate.fate))
}

/// Writes the cost of a candidate, or why it was not possible.
#[must_use]
pub fn fate(fate: &Fate) -> String {
    match fate {
        Fate::Costs(it) => cost(it),
        Fate::Share(score) => share(score),
        Fate::Compute(score) => compute(score),
        Fate::Seats(score) => seats(score),
        Fate::Set(score) => set(score),
        Fate::Links { mb_s, free, .. } => {
            format!("links of {}, of {}", gbps(*mb_s), counted(*free, "free GPU"))
        }
        Fate::Ruled(constraint) => format!("no: {constraint}"),
    }
}

pub(crate) fn cost(cost: &Cost) -> String {
    let times = |n, what: &str| match n {
        0 => None,
        1 => Some(what.to_owned()),
        n => Some(format!("{what} {n} times")),
    };
    // A GPU without MIG has no placements to lose.
    let lost = (cost.lost > 0).then(|| format!("loses {}", counted(cost.lost, "placement")));
    let does = [
        lost,
        times(cost.opened, "opens an unused GPU"),
        times(cost.switched, "switches MIG mode on"),
        times(cost.destroyed, "destroys an idle instance"),
    ];
    let does: Vec<String> = does.into_iter().flatten().collect();
    if does.is_empty() { "loses nothing".to_owned() } else { does.join(", ") }
}

fn share(score: &ShareScore) -> String {
    let warps = score.in_use_sm_percent * WARPS_PER_SM / 100;
    match score.class {
        ShareClass::Join => format!("shared already, {warps} warps in use"),
        ShareClass::Open => format!("to be opened, {}", cost(&score.cost)),
        ShareClass::Carve => format!("a new instance, {}", cost(&score.cost)),
        ShareClass::Oversubscribe => {
            format!("shared already, all threads promised, {warps} warps in use")
        }
    }
}

fn compute(score: &ComputeScore) -> String {
    let ComputeScore { part, joins, lost, cost: of } = score;
    let place = if *joins { "joins others".to_owned() } else { format!("a new GPU instance, {}", cost(of)) };
    format!("{}c at compute slice {}, loses {lost} compute instances, {place}", part.slices, part.start)
}

fn seats(score: &SeatScore) -> String {
    match score.class {
        ShareClass::Join | ShareClass::Oversubscribe => {
            format!("in the pool, {} of {} seats taken", score.taken, score.of)
        }
        ShareClass::Open => format!("to be opened, {}", cost(&score.cost)),
        ShareClass::Carve => format!("a new instance, {}", cost(&score.cost)),
    }
}

fn set(score: &SetScore) -> String {
    let predicted = prediction(score)
        .map_or_else(String::new, |p| format!("{p}, AggBW {} GB/s, ", number(score.scores.agg_bw)));
    let tied = score.tied_sets.filter(|tied| *tied > 1);
    let tied = tied.map_or_else(String::new, |tied| format!(", {tied} sets as good"));
    let left = number(score.preserved_bw);
    format!("{predicted}leaves {left} GB/s of links{tied}, of {} free GPUs", score.free)
}

/// Warps that an SM of an A100, A30 or H100 holds.
pub(crate) const WARPS_PER_SM: u64 = 64;
