//! Reads the text of one option.

use geometry::Model;
use geometry::size::parse_mib;
use protocol::SetWait;
use protocol::moldable::{PlannedStart, SizeTime, is_job_profile_name, times};
use protocol::time::parse_span;
use protocol::{Bandwidth, Isolation, MAX_INSTANCES};
use toml_tables::nearest;
use topology::{Pattern, Selection};

use crate::edge_list::parse_edges;
use crate::table::Opt;

/// The highest power limit of all boards that Tessera knows, W.
pub const MOST_DRAW_W: u16 = 1400;

/// An option with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// `--gpu-isolation`
    Isolation(Isolation),
    /// `--gpu-mem`, MiB
    Mem(u64),
    /// `--gpu-instances`: how many, and whether for each Slurm task instead of per node
    Instances(u32, bool),
    /// `--gpu-sms`, percent
    Sms(u8),
    /// `--gpu-pattern`
    Pattern(Pattern),
    /// `--gpu-bandwidth`
    Bandwidth(Bandwidth),
    /// `--gpu-set-policy`
    SetPolicy(Selection),
    /// `--gpu-wait`
    Wait(SetWait),
    /// `--gpu-times`, ascending by size
    Times(Vec<SizeTime>),
    /// `--gpu-app`
    App(String),
    /// `--gpu-place`
    Place(PlannedStart),
    /// `--gpu-power`, watts
    Power(u16),
    /// `--gpu-power=auto`
    AutoPower,
}

/// Reads the text of an option; `read_file` reads a file as the submitting user.
///
/// # Errors
///
/// What is wrong with the text and what would be accepted, as the end of a line that names the option and the text.
pub(super) fn read(
    opt: Opt,
    text: &str,
    read_file: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Value, String> {
    match opt {
        Opt::Isolation => isolation(text).map(Value::Isolation),
        Opt::Mem => mem(text).map(Value::Mem),
        Opt::Instances => {
            let (count, per_task) = text.strip_suffix("/task").map_or((text, false), |n| (n, true));
            let number = whole_number(count, MAX_INSTANCES).map(|n| Value::Instances(n, per_task));
            number.ok_or_else(|| {
                format!(
                    "is not a number of instances: expected 1 to {MAX_INSTANCES} per node, such as 2, or for each Slurm task, \
                     such as 1/task"
                )
            })
        }
        Opt::Sms => sms(text).map(Value::Sms),
        Opt::Pattern => pattern(text, read_file).map(Value::Pattern),
        Opt::Bandwidth => match text {
            "sensitive" => Ok(Value::Bandwidth(Bandwidth::Sensitive)),
            "insensitive" => Ok(Value::Bandwidth(Bandwidth::Insensitive)),
            _ => Err("is unknown: expected sensitive or insensitive".to_owned()),
        },
        Opt::SetPolicy => Selection::parse(text)
            .map(Value::SetPolicy)
            .ok_or_else(|| "is unknown: expected preserve, greedy, topo-aware or baseline".to_owned()),
        Opt::Wait => SetWait::parse(text).map(Value::Wait).ok_or_else(|| {
            SetWait::renamed(text)
                .unwrap_or_else(|| format!("is not a bandwidth with a time: {}", SetWait::EXPECTED))
        }),
        Opt::Times => times(text, parse_span).map(Value::Times).map_err(|e| e.to_string()),
        Opt::App => application(text).map(Value::App),
        Opt::Power if text == "auto" => Ok(Value::AutoPower),
        Opt::Power => power(text).map(Value::Power),
        Opt::Place => PlannedStart::parse(text).map(Value::Place).ok_or_else(|| {
            "is not a place: expected a GPU's index and a first memory slice, such as 3@4".to_owned()
        }),
    }
}

fn application(text: &str) -> Result<String, String> {
    if Model::all().iter().any(|m| m.profile(text).is_some()) {
        return Err(format!(
            "is a MIG profile, not the name of an application: expected --gpu-isolation=mig:{text}"
        ));
    }
    let expected =
        "is not an application's name: expected up to 64 letters, digits, dots, dashes and underscores";
    if is_job_profile_name(text) { Ok(text.to_owned()) } else { Err(expected.to_owned()) }
}

fn isolation(text: &str) -> Result<Isolation, String> {
    Isolation::parse(text).map_err(|e| {
        if let Some(renamed) = Isolation::renamed(text) {
            return renamed;
        }
        let problem = match text.split_once(':') {
            Some(("mig", "")) => "names no profile",
            Some(("mig", _)) => "is not a profile's name",
            Some(("mig-shared", _)) => "names no compute instance, such as 4c.7g.40gb",
            _ => "is unknown",
        };
        let meant = meant(text).map_or_else(String::new, |meant| format!("{meant} "));
        format!("{problem}: {meant}{e}, such as mig:2g.10gb")
    })
}

/// Says what a user may have meant by a text that is no isolation.
fn meant(text: &str) -> Option<String> {
    if let Some((kind, size)) = text.split_once(':')
        && ["mig", "mps", "gpu-tasks"].contains(&kind.to_ascii_lowercase().as_str())
        && parse_mib(size).is_ok()
    {
        let kind = kind.to_ascii_lowercase();
        return Some(format!("memory has an option of its own, {kind} with --gpu-mem={size};"));
    }
    let words = Opt::Isolation.words();
    let profile = format!("mig:{}", text.to_ascii_lowercase());
    // Words that users have for a kind.
    let other = match text.to_ascii_lowercase().as_str() {
        "gpu" | "full" | "exclusive" => Some("whole"),
        "share" | "shared" | "shard" => Some("mps"),
        "slice" | "instance" => Some("mig"),
        _ => None,
    };
    let named = words.iter().find(|word| **word == profile).map(String::as_str).or(other);
    let near = || only_nearest(text, words.iter().map(String::as_str));
    named.or_else(near).map(|meant| format!("did you mean {meant}?"))
}

/// Gives the candidate that is nearest to a misspelt word; `None` if it has fewer than three letters, or several are as near.
pub(super) fn only_nearest<'a>(
    typed: &str,
    candidates: impl DoubleEndedIterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let first = nearest(typed, candidates.clone()).filter(|_| typed.len() >= 3);
    first.filter(|first| nearest(typed, candidates.rev()) == Some(first))
}

fn mem(text: &str) -> Result<u64, String> {
    parse_mib(text).map_err(|why| {
        // Where the reason already lists the suffixes, an example is enough.
        let hint = if why.contains("suffix") { "" } else { "expected a size " };
        format!("{why}: {hint}such as 10G or 500M (10^9 and 10^6 bytes), or 10Gi (2^30)")
    })
}

fn power(text: &str) -> Result<u16, String> {
    let number = text.strip_suffix(['W', 'w']).unwrap_or(text);
    whole_number(number, MOST_DRAW_W.into()).and_then(|n| u16::try_from(n).ok()).ok_or_else(|| {
        format!(
            "is not a power cap: expected whole watts, 1 to {MOST_DRAW_W} (no GPU draws more), such as 200 or 200W, or auto"
        )
    })
}

fn sms(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    whole_number(number, 100)
        .and_then(|n| u8::try_from(n).ok())
        .ok_or_else(|| "is not a part of the GPU: expected 1 to 100, such as 25 or 25%".to_owned())
}

/// A plain decimal number from 1 to `most`, without sign or spaces.
fn whole_number(text: &str, most: u32) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten().filter(|n| (1..=most).contains(n))
}

/// Reads a pattern's name or `file:PATH`; `read_file` reads the named file as the submitting user.
fn pattern(text: &str, read_file: &dyn Fn(&str) -> Result<String, String>) -> Result<Pattern, String> {
    if let Some(named) = Pattern::by_name(text) {
        return Ok(named);
    }
    match text.strip_prefix("file:") {
        None => {
            let words = Opt::Pattern.words();
            let near = only_nearest(text, words.iter().map(String::as_str).filter(|word| *word != "file:"));
            let meant = near.map_or_else(String::new, |meant| format!("did you mean {meant}? "));
            Err(format!("is unknown: {meant}{}", Pattern::EXPECTED))
        }
        Some("") => Err(format!("names no file: {}", Pattern::EXPECTED)),
        Some(path) => parse_edges(&read_file(path)?).map_err(|e| e.to_string()),
    }
}
