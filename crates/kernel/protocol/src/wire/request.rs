//! A job's request as a string.
//!
//! `v1 iso=mig:2g.10gb typed=1 mem=9537 inst=2 per-task=1 seats=4 threads=25 pattern=ring bw=sensitive gpus=3 policy=greedy wait=25:1200
//! times=1g:60,2g:35 job-profile=bert place=3@4 cap=200`, or `cap=auto
//! counters=a100-40gb:ncu:45123:…`. A key that the job did not give is left out. An edge list is
//! `pattern=edges:0-1,1-2*0.5`, with a weight after `*` where it is not 1.

use topology::{MAX_EDGES, MAX_RANK, Pattern, PatternEdge, Selection, parse_weight};

use super::placement::MAX_CAP_W;
use crate::counters::{AppCounters, MAX_COUNTERS};
use crate::moldable::{PlannedStart, is_job_profile_name, parse_times};
use crate::request::{Bandwidth, Isolation, MAX_INSTANCES, MAX_SEATS, Request, is_profile_name};
use crate::set_wait::SetWait;
use crate::strict::{WireError, bad, number, versioned};

/// Name of the environment variable that holds the request.
pub const REQUEST_ENV: &str = "TESSERA_REQUEST";

/// Stands for a cap that follows from counters.
const AUTO: &str = "auto";

/// Writes a request; [`parse_request`] reads it back unchanged.
#[must_use]
pub fn encode_request(request: &Request) -> String {
    let mut out = format!("v1 iso={}", isolation_word(&request.isolation));
    let mut field = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            out.push_str(&format!(" {key}={value}"));
        }
    };
    field("typed", request.isolation_typed.then(|| "1".to_owned()));
    field("mem", request.mem_mib.map(|v| v.to_string()));
    field("inst", (request.instances != 1).then(|| request.instances.to_string()));
    field("per-task", request.per_task.then(|| "1".to_owned()));
    field("seats", (request.seats != 1).then(|| request.seats.to_string()));
    field("threads", request.threads.map(|v| v.to_string()));
    field("pattern", request.pattern.as_ref().map(encode_pattern));
    field("bw", request.bandwidth.map(|b| b.word().to_owned()));
    field("gpus", request.gpus.map(|v| v.to_string()));
    field("policy", request.policy.map(|p| p.name().to_owned()));
    field("wait", request.wait.map(SetWait::wire));
    let times: Vec<String> = request.times.iter().map(ToString::to_string).collect();
    field("times", (!times.is_empty()).then(|| times.join(",")));
    field("job-profile", request.job_profile.clone());
    field("place", request.place.map(|p| p.to_string()));
    let auto = request.auto_cap.then(|| AUTO.to_owned());
    field("cap", request.cap_w.map(|w| w.to_string()).or(auto));
    let counters: Vec<String> = request.counters.iter().map(ToString::to_string).collect();
    field("counters", (!counters.is_empty()).then(|| counters.join(",")));
    out
}

/// Reads a request as [`encode_request`] writes it.
///
/// # Errors
///
/// The text has a part that is unknown, repeated or out of range; the error shows the first.
pub fn parse_request(text: &str) -> Result<Request, WireError> {
    let mut fields = versioned(text)?.split(' ').filter(|f| !f.is_empty());
    let Some(isolation) = fields.next().and_then(|f| f.strip_prefix("iso=")) else {
        return bad("no isolation", text);
    };
    let Some(isolation) = parse_isolation(isolation) else { return bad("unknown isolation", isolation) };
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
            "inst" => request.instances = number(value, 1, u64::from(MAX_INSTANCES))?,
            "per-task" => request.per_task = number::<u8>(value, 1, 1)? == 1,
            "seats" => request.seats = number(value, 1, u64::from(MAX_SEATS))?,
            "threads" => request.threads = Some(number(value, 1, 100)?),
            "pattern" => request.pattern = Some(parse_pattern(value)?),
            "bw" => request.bandwidth = Some(parse_bandwidth(value)?),
            "gpus" => request.gpus = Some(number(value, 1, 1024)?),
            _ => read_choice(&mut request, key, value)?,
        }
    }
    Ok(request)
}

/// Reads a key that says how the GPUs are chosen.
fn read_choice(request: &mut Request, key: &str, value: &str) -> Result<(), WireError> {
    match key {
        "policy" => match Selection::parse(value) {
            Some(policy) => request.policy = Some(policy),
            None => return bad("unknown policy", value),
        },
        "wait" => match SetWait::parse_wire(value) {
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
        "cap" if value == AUTO => request.auto_cap = true,
        "counters" => request.counters = parse_counters(value)?,
        "cap" => request.cap_w = Some(number(value, 1, MAX_CAP_W.into())?),
        _ => return bad("unknown key", key),
    }
    Ok(())
}

fn parse_counters(value: &str) -> Result<Vec<AppCounters>, WireError> {
    if value.split(',').count() > MAX_COUNTERS {
        return bad("too many counters", value);
    }
    let one = |text: &str| AppCounters::parse(text).map_or_else(|| bad("not counters", text), Ok);
    value.split(',').map(one).collect()
}

/// Writes an isolation as the requests of all versions have it. Users type and read other words for some
/// ([`Isolation::ACCEPTED`]); jobs of older versions and nodes that are not upgraded yet know only these.
fn isolation_word(isolation: &Isolation) -> String {
    match isolation {
        Isolation::None => "none".to_owned(),
        Isolation::Tasks { probes: false } => "tasks".to_owned(),
        Isolation::Tasks { probes: true } => "tasks:probes".to_owned(),
        Isolation::Mig(Some(name)) => format!("mig:{name}"),
        typed => typed.to_string(),
    }
}

fn parse_isolation(word: &str) -> Option<Isolation> {
    match word.strip_prefix("mig:") {
        Some(name) => is_profile_name(name).then(|| Isolation::Mig(Some(name.to_owned()))),
        None if word == "none" => Some(Isolation::None),
        None => Isolation::parse(word).ok(),
    }
}

fn parse_bandwidth(value: &str) -> Result<Bandwidth, WireError> {
    Bandwidth::parse(value).map_or_else(|| bad("unknown bandwidth", value), Ok)
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
            return bad("an edge that is listed twice", text);
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
