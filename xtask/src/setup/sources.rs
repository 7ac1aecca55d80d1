//! Reads this machine's Debian mirrors, and writes apt sources with the same mirrors for other components and suites.
//!
//! No host is named here: the mirrors come from the machine's own apt configuration, in either of apt's formats.

use std::fs;
use std::path::Path;

use crate::command::TaskError;

/// A source of Debian packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mirror {
    /// Base address, as the machine's configuration has it.
    pub(super) uri: String,
    /// Suffix of the release's code name: empty, `-updates` or `-security`.
    pub(super) suffix: String,
}

/// Debian mirrors of the running release (`codename`), in the order the machine's files name them.
pub(super) fn machine_mirrors(codename: &str) -> Result<Vec<Mirror>, TaskError> {
    let etc = Path::new("/etc/apt");
    let mut files = vec![etc.join("sources.list")];
    let mut parts: Vec<_> = fs::read_dir(etc.join("sources.list.d"))
        .map(|dir| dir.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect())
        .unwrap_or_default();
    parts.sort();
    files.append(&mut parts);
    let mut mirrors = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let found = match file.extension().and_then(|extension| extension.to_str()) {
            Some("sources") => parse_deb822(&text, codename),
            Some("list") => parse_list(&text, codename),
            _ => Vec::new(),
        };
        for mirror in found {
            if !mirrors.contains(&mirror) {
                mirrors.push(mirror);
            }
        }
    }
    if mirrors.iter().any(|mirror| mirror.suffix.is_empty()) {
        return Ok(mirrors);
    }
    Err(TaskError::Other(format!(
        "no Debian mirror for `{codename}` (component main) in /etc/apt/sources.list or sources.list.d"
    )))
}

/// The text of our sources file: the machine's mirrors for `codename`, with source packages and all components.
pub(super) fn render(mirrors: &[Mirror], codename: &str) -> String {
    let stanza = |mirror: &Mirror| {
        format!(
            "Types: deb deb-src\nURIs: {}\nSuites: {codename}{}\nComponents: main contrib non-free\n\
             Signed-By: {KEYRING}\n",
            mirror.uri, mirror.suffix
        )
    };
    mirrors.iter().map(stanza).collect::<Vec<_>>().join("\n")
}

/// Debian's archive keys: apt and debootstrap check every fetched index with them.
pub(super) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

fn suffix<'a>(suite: &'a str, codename: &str) -> Option<&'a str> {
    let rest = suite.trim_end_matches('/').strip_prefix(codename)?;
    ["", "-updates", "-security"].contains(&rest).then_some(rest)
}

/// True if an entry's key is Debian's. Other vendors use the same suite names with their own keys.
fn is_debians(signed_by: Option<&str>) -> bool {
    signed_by.is_none_or(|key| key.contains("debian-archive"))
}

/// apt's stanza format (`*.sources`).
fn parse_deb822(text: &str, codename: &str) -> Vec<Mirror> {
    let mut mirrors = Vec::new();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for stanza in lines.split(|line| line.trim().is_empty()) {
        let field = |name: &str| {
            let value = |line: &&str| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            };
            stanza.iter().find_map(value)
        };
        let words = |name: &str| -> Vec<String> {
            field(name).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
        };
        let enabled = field("Enabled").is_none_or(|value| value != "no");
        let usable = words("Types").iter().any(|kind| kind == "deb")
            && words("Components").iter().any(|component| component == "main")
            && is_debians(field("Signed-By").as_deref());
        if !enabled || !usable {
            continue;
        }
        for uri in words("URIs") {
            for suite in words("Suites") {
                if let Some(rest) = suffix(&suite, codename) {
                    mirrors.push(Mirror { uri: uri.clone(), suffix: rest.to_owned() });
                }
            }
        }
    }
    mirrors
}

/// apt's one-line format (`*.list`).
fn parse_list(text: &str, codename: &str) -> Vec<Mirror> {
    let mut mirrors = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some(rest) = line.strip_prefix("deb ") else { continue };
        let rest = rest.trim();
        let (options, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((options, rest)) => (Some(options), rest),
            None => (None, rest),
        };
        let signed_by = options
            .and_then(|all| all.split_whitespace().find_map(|option| option.strip_prefix("signed-by=")));
        let mut words = rest.split_whitespace();
        let (Some(uri), Some(suite)) = (words.next(), words.next()) else { continue };
        if !words.any(|component| component == "main") || !is_debians(signed_by) {
            continue;
        }
        if let Some(rest) = suffix(suite, codename) {
            mirrors.push(Mirror { uri: uri.to_owned(), suffix: rest.to_owned() });
        }
    }
    mirrors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror(uri: &str, suffix: &str) -> Mirror {
        Mirror { uri: uri.to_owned(), suffix: suffix.to_owned() }
    }

    #[test]
    fn stanzas_of_debian_are_found_and_others_left_out() {
        let text = "Types: deb\n# a comment\nURIs: http://mirror.test/debian\nSuites: bookworm bookworm-updates bookworm-backports\n\
                    Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n\
                    Types: deb\nURIs: http://vendor.test\nSuites: bookworm\nComponents: main\nSigned-By: /k/vendor.gpg\n\n\
                    Enabled: no\nTypes: deb\nURIs: http://off.test\nSuites: bookworm\nComponents: main\n";
        assert_eq!(
            parse_deb822(text, "bookworm"),
            [mirror("http://mirror.test/debian", ""), mirror("http://mirror.test/debian", "-updates")]
        );
    }

    #[test]
    fn one_line_entries_are_found() {
        let text = "deb http://mirror.test/debian bookworm main contrib # x\n#deb http://no.test bookworm main\n\
                    deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://sec.test/s bookworm-security main\n\
                    deb-src http://mirror.test/debian bookworm main\ndeb [signed-by=/k/x.gpg] http://x.test bookworm main\n";
        assert_eq!(
            parse_list(text, "bookworm"),
            [mirror("http://mirror.test/debian", ""), mirror("http://sec.test/s", "-security")]
        );
    }

    #[test]
    fn another_suite_keeps_the_mirror() {
        let text = render(&[mirror("http://sec.test/s", "-security")], "trixie");
        assert!(text.contains("URIs: http://sec.test/s\nSuites: trixie-security\n"), "{text}");
    }
}
