//! The two strings that travel with a job: its request and its placement.
//!
//! Both live in the job's SPANK environment, which is the user's to fill, so both parsers are strict, bounded and
//! free of panics, and the placement is only believed where slurmctld wrote it.
//!
//! Request: `v1 iso=mig:2g.10gb typed=1 mem=9537 inst=2 threads=25 pattern=ring bw=sensitive gpus=3 policy=greedy wait=25:1200
//! times=1g:60,2g:35 job-profile=bert place=3@4`; a key that was not given is left out, and an edge list is
//! `pattern=edges:0-1,1-2*0.5`. Placement: `v1 job=12;n1=mig:3/2g.10gb@4,3/2g.10gb@0;n2=mps:1/mem=2862/threads=25;n3=whole:0,3,4`,
//! and a share inside an instance `mps:0/1g.5gb@2/mem=2862/threads=25`.

use std::fmt::Write as _;

use crate::moldable::{PlannedStart, is_job_profile_name, parse_times};
use crate::wait::SetWait;
use crate::{Bandwidth, Grant, Isolation, MigSpec, Request, ShareOn};
use geometry::{GpuIndex, JobId, Model, Slice};
use topology::{MAX_EDGES, MAX_RANK, Pattern, PatternEdge, Selection, parse_weight};

/// Name of the environment variable that carries the request.
pub const REQUEST_ENV: &str = "TESSERA_REQUEST";
/// Name of the environment variable that carries the placement.
pub const PLACEMENT_ENV: &str = "TESSERA_PLACEMENT";

/// Name of the environment variable that says why a job got its placement, for people.
pub const WHY_ENV: &str = "TESSERA_WHY";
/// Most bytes of that text.
pub const MAX_WHY: usize = 200;

/// Longest string that is read at all: thousands of nodes fit, an attack on the controller's memory does not.
pub const MAX_LEN: usize = 1 << 20;
/// A string that is not a request or placement of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} in {excerpt:?}")]
pub struct WireError {
    what: &'static str,
    /// At most 40 characters of the offending part.
    excerpt: String,
}

impl WireError {
    pub(crate) fn new(what: &'static str, part: &str) -> Self {
        Self { what, excerpt: part.chars().take(40).collect() }
    }
}

pub(crate) fn bad<T>(what: &'static str, part: &str) -> Result<T, WireError> {
    Err(WireError::new(what, part))
}

/// A reason as it may travel with a job and be shown to its user: one line, no `;`, at most [`MAX_WHY`] bytes.
#[must_use]
pub fn plain_why(text: &str) -> String {
    let plain = |c: char| match c {
        ';' => ',',
        c if c.is_control() => ' ',
        c => c,
    };
    let mut out: String = text.trim().chars().map(plain).collect();
    if out.len() > MAX_WHY {
        let end = (0..=MAX_WHY - DOTS.len()).rev().find(|i| out.is_char_boundary(*i)).unwrap_or(0);
        out.truncate(end);
        out.push_str(DOTS);
    }
    out
}

const DOTS: &str = "...";

/// Writes a request.
#[must_use]
pub fn encode_request(request: &Request) -> String {
    let mut out = format!("v1 iso={}", request.isolation);
    let mut field = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            out.push_str(&format!(" {key}={value}"));
        }
    };
    field("typed", request.isolation_typed.then(|| "1".to_owned()));
    field("mem", request.mem_mib.map(|v| v.to_string()));
    field("inst", (request.instances != 1).then(|| request.instances.to_string()));
    field("threads", request.threads.map(|v| v.to_string()));
    field("pattern", request.pattern.as_ref().map(encode_pattern));
    field("bw", request.bandwidth.map(|b| bandwidth_word(b).to_owned()));
    field("gpus", request.gpus.map(|v| v.to_string()));
    field("policy", request.policy.map(|p| p.name().to_owned()));
    field("wait", request.wait.map(|w| w.to_string()));
    let times: Vec<String> = request.times.iter().map(ToString::to_string).collect();
    field("times", (!times.is_empty()).then(|| times.join(",")));
    field("job-profile", request.job_profile.clone());
    field("place", request.place.map(|p| p.to_string()));
    out
}

/// Reads a request.
///
/// # Errors
///
/// The first part that is unknown, repeated or out of range.
pub fn parse_request(text: &str) -> Result<Request, WireError> {
    let mut fields = versioned(text)?.split(' ').filter(|f| !f.is_empty());
    let Some(isolation) = fields.next().and_then(|f| f.strip_prefix("iso=")) else {
        return bad("no isolation", text);
    };
    let Ok(isolation) = Isolation::parse(isolation) else { return bad("unknown isolation", isolation) };
    let mut request = Request::new(isolation);
    let mut seen = Vec::new();
    for field in fields {
        let Some((key, value)) = field.split_once('=') else { return bad("not key=value", field) };
        if seen.contains(&key) {
            return bad("repeated key", field);
        }
        seen.push(key);
        match key {
            "typed" => request.isolation_typed = number::<u8>(value, 1, 1)? == 1,
            "mem" => request.mem_mib = Some(number(value, 1, 1 << 20)?),
            "inst" => request.instances = number(value, 1, 1024)?,
            "threads" => request.threads = Some(number(value, 1, 100)?),
            "pattern" => request.pattern = Some(parse_pattern(value)?),
            "bw" => request.bandwidth = Some(parse_bandwidth(value)?),
            "gpus" => request.gpus = Some(number(value, 1, 1024)?),
            _ => read_choice(&mut request, key, value)?,
        }
    }
    Ok(request)
}

/// Reads a key that says how the choice is made.
fn read_choice(request: &mut Request, key: &str, value: &str) -> Result<(), WireError> {
    match key {
        "policy" => match Selection::parse(value) {
            Some(policy) => request.policy = Some(policy),
            None => return bad("unknown policy", value),
        },
        "wait" => match SetWait::parse(value) {
            Some(wait) => request.wait = Some(wait),
            None => return bad("not GBPS:SECONDS", value),
        },
        "times" => match parse_times(value) {
            Ok(times) => request.times = times,
            Err(_) => return bad("not times per size", value),
        },
        "job-profile" if is_job_profile_name(value) => request.job_profile = Some(value.to_owned()),
        "job-profile" => return bad("not a job profile's name", value),
        "place" => match PlannedStart::parse(value) {
            Some(place) => request.place = Some(place),
            None => return bad("not GPU@START", value),
        },
        _ => return bad("unknown key", key),
    }
    Ok(())
}

fn bandwidth_word(bandwidth: Bandwidth) -> &'static str {
    match bandwidth {
        Bandwidth::Sensitive => "sensitive",
        Bandwidth::Insensitive => "insensitive",
    }
}

fn parse_bandwidth(value: &str) -> Result<Bandwidth, WireError> {
    match value {
        "sensitive" => Ok(Bandwidth::Sensitive),
        "insensitive" => Ok(Bandwidth::Insensitive),
        _ => bad("unknown bandwidth", value),
    }
}

fn encode_pattern(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Edges(edges) => {
            let list: Vec<String> = edges.iter().map(encode_edge).collect();
            format!("edges:{}", list.join(","))
        }
        named => named.name().to_owned(),
    }
}

fn encode_edge(edge: &PatternEdge) -> String {
    let PatternEdge { a, b, milli } = edge;
    match milli {
        &PatternEdge::PLAIN => format!("{a}-{b}"),
        _ => format!("{a}-{b}*{}.{:03}", milli / 1000, milli % 1000),
    }
}

fn parse_pattern(value: &str) -> Result<Pattern, WireError> {
    if let Some(named) = Pattern::by_name(value) {
        return Ok(named);
    }
    let Some(list) = value.strip_prefix("edges:") else { return bad("unknown pattern", value) };
    if list.split(',').count() > MAX_EDGES {
        return bad("too many edges", list);
    }
    let mut edges: Vec<PatternEdge> = Vec::new();
    for text in list.split(',') {
        let edge = parse_edge(text)?;
        if edges.iter().any(|known| known.ends() == edge.ends()) {
            return bad("an edge that stands there twice", text);
        }
        edges.push(edge);
    }
    Ok(Pattern::Edges(edges))
}

fn parse_edge(text: &str) -> Result<PatternEdge, WireError> {
    let (ranks, weight) = text.split_once('*').map_or((text, None), |(ranks, w)| (ranks, Some(w)));
    let Some((a, b)) = ranks.split_once('-') else { return bad("not an edge", text) };
    let milli = match weight.map(parse_weight) {
        None => PatternEdge::PLAIN,
        Some(Some(milli)) => milli,
        Some(None) => return bad("not an edge's weight", text),
    };
    Ok(PatternEdge { a: number(a, 0, MAX_RANK.into())?, b: number(b, 0, MAX_RANK.into())?, milli })
}

/// A job's placement: what it gets on each of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlacement {
    /// The job that the decision was made for: a copy of the string in another job's environment says nothing.
    pub job: JobId,
    /// Node name and grant, in the order decided.
    pub nodes: Vec<(String, Grant)>,
}

impl JobPlacement {
    /// What the job gets on `node`.
    #[must_use]
    pub fn on(&self, node: &str) -> Option<&Grant> {
        self.nodes.iter().find(|(name, _)| name == node).map(|(_, grant)| grant)
    }
}

/// Finds the model of a node's GPU, to turn profile names into ids.
pub type ModelOf<'a> = &'a dyn Fn(&str, GpuIndex) -> Option<&'static Model>;

/// Writes a placement. An instance whose profile `model_of` does not know is written by its id, `#9`.
#[must_use]
pub fn encode_placement(placement: &JobPlacement, model_of: ModelOf<'_>) -> String {
    let mut out = format!("v1 job={}", placement.job);
    for (node, grant) in &placement.nodes {
        out.push(';');
        out.push_str(node);
        out.push('=');
        out.push_str(&encode_grant(grant, &|gpu| model_of(node, gpu)));
    }
    out
}

/// Writes one node's grant: `mig:3/2g.10gb@4`.
#[must_use]
pub fn encode_grant(grant: &Grant, model_of: &dyn Fn(GpuIndex) -> Option<&'static Model>) -> String {
    let spec = |s: &MigSpec| {
        let profile = model_of(s.gpu).and_then(|m| m.profile_by_id(s.profile));
        match profile {
            Some(p) => format!("{}/{}@{}", s.gpu, p.name, s.start),
            None => format!("{}/#{}@{}", s.gpu, s.profile, s.start),
        }
    };
    match grant {
        Grant::Mig(specs) => format!("mig:{}", specs.iter().map(spec).collect::<Vec<_>>().join(",")),
        Grant::Mps { on, mem_mib, threads } => {
            let on = match on {
                ShareOn::Gpu(gpu) => gpu.to_string(),
                ShareOn::Instance(s) => spec(s),
            };
            format!("mps:{on}/mem={mem_mib}/threads={threads}")
        }
        Grant::Whole(gpus) => {
            let mut out = String::from("whole:");
            for (i, gpu) in gpus.iter().enumerate() {
                // Writing to a String cannot fail.
                let _ = write!(out, "{}{gpu}", if i == 0 { "" } else { "," });
            }
            out
        }
    }
}

/// Reads a placement.
///
/// # Errors
///
/// The first part that is malformed, a GPU or profile that `model_of` does not know, or a node named twice.
pub fn parse_placement(text: &str, model_of: ModelOf<'_>) -> Result<JobPlacement, WireError> {
    let mut parts = versioned(text)?.split(';');
    let Some(job) = parts.next().and_then(|p| p.strip_prefix("job=")) else { return bad("no job", text) };
    let mut nodes: Vec<(String, Grant)> = Vec::new();
    let mut names = std::collections::HashSet::new();
    for part in parts {
        let Some((node, grant)) = part.split_once('=') else { return bad("not node=grant", part) };
        if node.is_empty() || !names.insert(node) {
            return bad("no node or one named twice", part);
        }
        nodes.push((node.to_owned(), parse_grant(grant, &|gpu| model_of(node, gpu))?));
    }
    Ok(JobPlacement { job: JobId(number(job, 1, u64::from(u32::MAX))?), nodes })
}

/// Reads one node's grant, as [`encode_grant`] writes it.
///
/// # Errors
///
/// As [`parse_placement`].
pub fn parse_grant(
    text: &str,
    model_of: &dyn Fn(GpuIndex) -> Option<&'static Model>,
) -> Result<Grant, WireError> {
    if let Some(list) = text.strip_prefix("mig:") {
        let specs: Vec<MigSpec> =
            list.split(',').map(|s| parse_spec(s, model_of)).collect::<Result<_, _>>()?;
        return Ok(Grant::Mig(specs));
    }
    if let Some(list) = text.strip_prefix("whole:") {
        return Ok(Grant::Whole(list.split(',').map(|g| parse_gpu(g, model_of)).collect::<Result<_, _>>()?));
    }
    let Some(share) = text.strip_prefix("mps:") else { return bad("unknown kind of grant", text) };
    let Some((rest, threads)) = share.rsplit_once("/threads=") else { return bad("no threads", share) };
    let Some((on, mem)) = rest.rsplit_once("/mem=") else { return bad("no memory", share) };
    let on = if on.contains('/') {
        ShareOn::Instance(parse_spec(on, model_of)?)
    } else {
        ShareOn::Gpu(parse_gpu(on, model_of)?)
    };
    Ok(Grant::Mps { on, mem_mib: number(mem, 1, 1 << 20)?, threads: number(threads, 1, 100)? })
}

fn parse_gpu(
    text: &str,
    model_of: &dyn Fn(GpuIndex) -> Option<&'static Model>,
) -> Result<GpuIndex, WireError> {
    let gpu = GpuIndex(number(text, 0, u64::from(u16::MAX))?);
    if model_of(gpu).is_none() {
        return bad("a GPU this node does not have", text);
    }
    Ok(gpu)
}

fn parse_spec(
    text: &str,
    model_of: &dyn Fn(GpuIndex) -> Option<&'static Model>,
) -> Result<MigSpec, WireError> {
    let Some((gpu, instance)) = text.split_once('/') else { return bad("no profile", text) };
    let Some((profile, start)) = instance.split_once('@') else { return bad("no start", text) };
    let gpu = parse_gpu(gpu, model_of)?;
    let start = Slice(number(start, 0, 15)?);
    let known = model_of(gpu).and_then(|m| m.profile(profile)).filter(|p| p.starts.contains(&start));
    match known {
        Some(profile) => Ok(MigSpec { gpu, profile: profile.id, start }),
        None => bad("a profile or start this GPU does not have", text),
    }
}

/// The text after the version.
fn versioned(text: &str) -> Result<&str, WireError> {
    if text.len() > MAX_LEN {
        return bad("too long", text);
    }
    text.strip_prefix("v1 ").map_or_else(|| bad("not version 1", text), Ok)
}

/// A plain decimal number without sign, from `least` to `most`.
pub(crate) fn number<T: TryFrom<u64>>(text: &str, least: u64, most: u64) -> Result<T, WireError> {
    let plain = !text.is_empty() && text.len() <= 10 && text.bytes().all(|b| b.is_ascii_digit());
    let value = plain.then(|| text.parse::<u64>().ok()).flatten();
    match value.filter(|v| (least..=most).contains(v)).map(T::try_from) {
        Some(Ok(value)) => Ok(value),
        _ => bad("a number out of range", text),
    }
}
