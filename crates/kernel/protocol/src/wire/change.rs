//! A change of a pending job's request, on its way into the job.
//!
//! `tessera change` asks Slurm for the GRES `tessera:763120…`, whose type is the new request in hexadecimal digits: Slurm's commands split a
//! list at commas and colons, which a request has. A slurmctld without Tessera knows no such GRES and refuses. With Tessera, the
//! job submit plugin puts Slurm's own GRES there, and notes in the job's SPANK environment which list of GRES comes with which request:
//!
//! ```text
//! TESSERA_CHANGE=gres/shard:20|v1 iso=mig mem=19073 typed=1
//! ```
//!
//! Slurm can refuse the change after that. So the new request counts once the job has this list.

use crate::request::Request;
use crate::strict::{WireError, bad};

use super::{encode_request, parse_request};

/// Name of the environment variable that holds a change which Slurm may not have accepted yet.
pub const CHANGE_ENV: &str = "TESSERA_CHANGE";

/// Longest request that a change can bring, bytes: half of what a variable of the SPANK environment may have. An edge list of several
/// hundred edges fits.
const MAX_REQUEST: usize = 16 * 1024;

/// Stands between the list of GRES and the request. Neither can have it.
const BETWEEN: char = '|';

/// Name of the GRES that stands for a request.
const GRES: &str = "tessera";

/// Writes a request as a GRES, without the prefix that Slurm's commands put before it.
#[must_use]
pub fn encode_as_gres(request: &Request) -> String {
    format!("{GRES}:{}", hex(&encode_request(request)))
}

fn hex(text: &str) -> String {
    let halves = text.bytes().flat_map(|byte| [byte >> 4, byte & 0xf]);
    halves.filter_map(|half| char::from_digit(half.into(), 16)).collect()
}

/// Reads the request of a list of GRES that [`encode_as_gres`] made; `None`: the list names no such GRES.
///
/// # Errors
///
/// The request is too long or cannot be read, or the list names other GRES too.
pub fn request_in_gres(list: &str) -> Option<Result<Request, WireError>> {
    let mut entries = list.split(',').map(|entry| {
        let bare = entry.trim();
        bare.strip_prefix("gres/").or_else(|| bare.strip_prefix("gres:")).unwrap_or(bare)
    });
    let is_ours = |entry: &str| {
        entry.strip_prefix(GRES).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '=']))
    };
    let found = entries.clone().find(|entry| is_ours(entry))?;
    Some(if entries.any(|entry| !is_ours(entry)) {
        bad("other GRES beside a request", list)
    } else {
        decoded(found)
    })
}

fn decoded(entry: &str) -> Result<Request, WireError> {
    let digits = entry.split_once(':').map_or("", |(_, digits)| digits);
    if digits.len() > 2 * MAX_REQUEST {
        return bad("too long", entry);
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit()) && digits.len().is_multiple_of(2);
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
    match bytes.filter(|_| is_hex).and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) => parse_request(&text),
        None => bad("not hexadecimal digits", entry),
    }
}

/// Writes the value of [`CHANGE_ENV`]: the request counts once the job's list of GRES per node is `list`.
#[must_use]
pub fn encode_change(list: &str, request: &str) -> String {
    format!("{list}{BETWEEN}{request}")
}

/// Gives the request that a change has brought; `None`: the job's GRES per node are not those of the change, so Slurm has refused it, or
/// has not accepted it yet.
#[must_use]
pub fn request_of_change<'a>(change: &'a str, per_node: Option<&str>) -> Option<&'a str> {
    let (list, request) = change.rsplit_once(BETWEEN)?;
    (list == per_node.unwrap_or_default()).then_some(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written_with_either_prefix() {
        let request =
            parse_request("v1 iso=mig typed=1 mem=9537 times=1g:60,2g:35 job-profile=bert").unwrap();
        let gres = encode_as_gres(&request);
        assert!(gres.bytes().all(|b| b.is_ascii_alphanumeric() || b == b':'), "{gres}");
        for list in [gres.clone(), format!("gres:{gres}"), format!("gres/{gres}")] {
            assert_eq!(request_in_gres(&list), Some(Ok(request.clone())));
        }
    }

    #[test]
    fn other_lists_are_slurms() {
        for list in ["", "gres:", "gres/gpu:2", "gres:tesseract:1", "gres/shard:10,gres/nic:1"] {
            assert_eq!(request_in_gres(list), None, "{list}");
        }
    }

    #[test]
    fn a_list_that_is_no_single_request_is_an_error() {
        let gres = encode_as_gres(&parse_request("v1 iso=mps").unwrap());
        for list in [
            format!("{gres},gres/gpu:1"),
            "tessera".to_owned(),
            "tessera:7".to_owned(),
            "tessera:+7".to_owned(),
            "tessera:é".to_owned(),
            "tessera:7631".to_owned(),
            format!("{gres}:1"),
            "tessera=3".to_owned(),
        ] {
            assert!(request_in_gres(&list).unwrap().is_err(), "{list}");
        }
        let long = format!("v1 iso=mps{}", " ".repeat(MAX_REQUEST));
        let why = request_in_gres(&format!("gres/tessera:{}", hex(&long))).unwrap().unwrap_err();
        assert!(why.to_string().starts_with("too long"), "{why}");
    }

    #[test]
    fn a_change_counts_with_its_list_alone() {
        let change = encode_change("gres/nic:1,gres/shard:20", "v1 iso=mps");
        assert_eq!(request_of_change(&change, Some("gres/nic:1,gres/shard:20")), Some("v1 iso=mps"));
        assert_eq!(request_of_change(&change, Some("gres/nic:1,gres/shard:10")), None);
        assert_eq!(request_of_change(&change, None), None);
        assert_eq!(request_of_change(&encode_change("", "v1 iso=mps"), None), Some("v1 iso=mps"));
        assert_eq!(request_of_change("v1 iso=mps", Some("v1 iso=mps")), None);
    }
}
