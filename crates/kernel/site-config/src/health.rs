//! Reads `[[health]]`: rules for unhealthy GPUs that differ from Tessera's own.

use std::fmt;

use toml_tables::{ConfigError, Errors, TableReader, pick, tables};

/// Sign that a GPU is unhealthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthEvent {
    /// The driver reported an error with this number.
    Xid(u16),
    /// An uncorrectable memory error.
    Ecc,
    /// A row of memory is remapped at the next reset.
    RemapPending,
    /// No row of memory was left to remap to.
    RemapFailed,
    /// The driver has lost the GPU.
    Lost,
    /// The hardware lowers the clock because the GPU is too hot.
    Hot,
    /// NVLinks had to be started again.
    Nvlink,
    /// The driver asks for a reset of the GPU or a reboot.
    Recovery,
    /// An administrator, or his health check, says so.
    Told,
}

/// Events without a number, as the file writes them.
const NAMED: [(&str, HealthEvent); 8] = [
    ("ecc", HealthEvent::Ecc),
    ("remap-pending", HealthEvent::RemapPending),
    ("remap-failed", HealthEvent::RemapFailed),
    ("lost", HealthEvent::Lost),
    ("hot", HealthEvent::Hot),
    ("nvlink", HealthEvent::Nvlink),
    ("recovery", HealthEvent::Recovery),
    ("told", HealthEvent::Told),
];

impl HealthEvent {
    /// Reads an event as it is written in the file: `xid 79`, `ecc`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(number) = text.strip_prefix("xid ").filter(|n| n.bytes().all(|b| b.is_ascii_digit())) {
            return number.parse().ok().filter(|n| *n > 0).map(Self::Xid);
        }
        NAMED.iter().find(|(name, _)| *name == text).map(|(_, event)| *event)
    }
}

impl fmt::Display for HealthEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Xid(number) = self {
            return write!(f, "xid {number}");
        }
        f.write_str(NAMED.iter().find(|(_, event)| event == self).map_or("", |(name, _)| name))
    }
}

/// Treatment of a GPU after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthAction {
    /// Only noted.
    Ignore,
    /// The GPU gets no new jobs. Those that are on it stay.
    LeaveOut,
    /// In addition, the jobs that are on it are requeued.
    Requeue,
}

impl HealthAction {
    /// All of them, as the file writes them.
    pub const NAMED: [(&'static str, Self); 3] =
        [("ignore", Self::Ignore), ("leave-out", Self::LeaveOut), ("requeue", Self::Requeue)];
}

/// The condition under which a GPU that was left out takes jobs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthReturn {
    /// As soon as the event is over.
    Itself,
    /// When the driver shows that the GPU was reset, the node has booted, or an administrator has accepted the GPU.
    Reset,
    /// When an administrator has accepted it.
    Accept,
}

impl HealthReturn {
    /// All of them, as the file writes them.
    pub const NAMED: [(&'static str, Self); 3] =
        [("itself", Self::Itself), ("reset", Self::Reset), ("accept", Self::Accept)];
}

/// A rule of the site's, or one of Tessera's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthRule {
    /// The event that it is for.
    pub event: HealthEvent,
    /// The treatment of the GPU; `None`: Tessera's own.
    pub action: Option<HealthAction>,
    /// The end of that treatment; `None`: Tessera's own.
    pub returns: Option<HealthReturn>,
    /// Advice for an administrator; `None`: Tessera's own.
    pub advice: Option<String>,
}

const MOST_RULES: usize = 256;
/// Longest advice, bytes.
const MOST_ADVICE: usize = 200;

/// Reads a file that has only `[[health]]`: Tessera's own rules.
///
/// # Errors
///
/// All errors of the file, in its order.
pub fn health_rules(file_name: &str, text: &str) -> Result<Vec<HealthRule>, Vec<ConfigError>> {
    let errors = Errors::new(file_name, text);
    let (root, _) = tables(text, &errors);
    let mut root = TableReader::new(root.get_ref(), root.span(), "", &errors);
    let rules = read(&mut root);
    root.finish();
    let errors = errors.into_sorted();
    if errors.is_empty() { Ok(rules) } else { Err(errors) }
}

pub(crate) fn read(root: &mut TableReader<'_, '_>) -> Vec<HealthRule> {
    let mut rules: Vec<HealthRule> = Vec::new();
    for table in root.tables("health") {
        let event = table.parsed("event", event);
        if !table.has("event") {
            let hint = "add event = \"xid 79\", or another of its events".to_owned();
            table.errors.push(table.span.clone(), "[[health]] names no event", Some(hint));
        }
        let action = table.word("action", &HealthAction::NAMED);
        let returns = table.word("returns", &HealthReturn::NAMED);
        let advice = table.parsed("advice", advice).map(|at| at.value);
        if let Some(event) = event {
            if rules.iter().any(|rule| rule.event == event.value) {
                table.errors.push(event.span, format!("two rules for {}", event.value), None);
            } else if rules.len() == MOST_RULES {
                table.errors.push(event.span, format!("more than {MOST_RULES} rules"), None);
            } else {
                rules.push(HealthRule { event: event.value, action, returns, advice });
            }
        }
        table.finish();
    }
    rules
}

fn event(text: &str) -> Result<HealthEvent, (String, Option<String>)> {
    if text.starts_with("xid") {
        let hint = || Some("write \"xid 79\", with a number from 1 to 65535".to_owned());
        return HealthEvent::parse(text).ok_or_else(|| (format!("{text:?} is no Xid"), hint()));
    }
    let words: Vec<(&str, HealthEvent)> = [("xid N", HealthEvent::Xid(0))].into_iter().chain(NAMED).collect();
    pick("event", text, &words)
}

fn advice(text: &str) -> Result<String, (String, Option<String>)> {
    if text.len() > MOST_ADVICE || text.chars().any(char::is_control) {
        let what = format!("advice is one line of at most {MOST_ADVICE} bytes");
        return Err((what, Some("name a page of yours that says more".to_owned())));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<HealthRule>, Vec<String>> {
        let (config, errors) = crate::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        config.map(|config| config.health).ok_or_else(|| errors.iter().map(ToString::to_string).collect())
    }

    const NODES: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n";

    #[test]
    fn rules_name_an_event_and_what_differs() {
        let text = "[[health]]\nevent = \"xid 94\"\naction = \"requeue\"\n[[health]]\nevent = \"hot\"\nreturns = \"accept\"\nadvice = \"call 4711\"\n";
        let rules = parsed(&format!("{NODES}{text}")).unwrap();
        let requeue = Some(HealthAction::Requeue);
        let xid = HealthEvent::Xid(94);
        assert_eq!(rules[0], HealthRule { event: xid, action: requeue, returns: None, advice: None });
        let (accept, advice) = (Some(HealthReturn::Accept), Some("call 4711".to_owned()));
        assert_eq!(rules[1], HealthRule { event: HealthEvent::Hot, action: None, returns: accept, advice });
    }

    #[test]
    fn errors_have_their_place() {
        let errors = |rule: &str| parsed(&format!("{NODES}[[health]]\n{rule}\n")).unwrap_err();
        for (rule, place, what) in [
            ("action = \"ignore\"", "t:5:", "names no event"),
            ("event = \"xid\"", "t:6:10", "is no Xid"),
            ("event = \"xid 70000\"", "t:6:10", "is no Xid"),
            ("event = \"eccc\"", "t:6:10", "eccc"),
            ("event = \"ecc\"\naction = \"drain\"", "t:7:11", "drain"),
            ("event = \"ecc\"\nreturns = \"never\"", "t:7:12", "never"),
            ("event = \"ecc\"\nadvice = \"a\\nb\"", "t:7:11", "one line"),
            ("event = \"ecc\"\nwhen = 3", "t:7:1", "when"),
            ("event = \"ecc\"\n[[health]]\nevent = \"ecc\"", "t:8:10", "two rules for ecc"),
        ] {
            let said = errors(rule);
            assert!(said.iter().any(|e| e.contains(place) && e.contains(what)), "{rule}: {said:?}");
        }
    }

    #[test]
    fn rules_and_advice_are_bounded() {
        let rules: String = (1..=257).map(|xid| format!("[[health]]\nevent = \"xid {xid}\"\n")).collect();
        let said = parsed(&format!("{NODES}{rules}")).unwrap_err();
        assert!(said[0].starts_with("t:518:10: more than 256 rules"), "{said:?}");
        let long = format!("{NODES}[[health]]\nevent = \"ecc\"\nadvice = \"{}\"\n", "x".repeat(201));
        assert!(parsed(&long).unwrap_err()[0].starts_with("t:7:11: advice is one line"));
    }

    #[test]
    fn every_event_comes_back() {
        for event in NAMED.map(|(_, event)| event).into_iter().chain([HealthEvent::Xid(79)]) {
            assert_eq!(HealthEvent::parse(&event.to_string()), Some(event));
        }
        for bad in ["", "xid", "xid ", "xid +1", "xid 0", "Ecc"] {
            assert_eq!(HealthEvent::parse(bad), None, "{bad}");
        }
    }
}
