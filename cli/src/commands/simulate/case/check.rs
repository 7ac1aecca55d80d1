//! The log of a node's task broker, checked.

use std::path::Path;

use case_study::audit::daemon;
use serde_json::json;

use crate::files::read_text;
use crate::outcome::{Failure, Outcome};

/// Prints what the log breaks, and counts. Exit status 1 if it breaks anything.
pub(super) fn run(file: &Path, json: bool) -> Result<Outcome, Failure> {
    let account = daemon(&read_text(file)?);
    let status = u8::from(!account.violations.is_empty());
    let found = account.violations.iter().map(|v| (v.at + 1, v.what.as_str()));
    if json {
        let violations: Vec<_> = found.map(|(line, what)| json!({ "line": line, "what": what })).collect();
        let value = json!({
            "begun": account.begun, "granted": account.granted, "refused": account.refused, "live": account.live,
            "longest_wait_s": account.longest_wait_s, "violations": violations,
        });
        return Ok(Outcome::json(&value, status));
    }
    let mut text: String = found.map(|(line, what)| format!("{}:{line}: {what}\n", file.display())).collect();
    text += &format!(
        "{} tasks began, {} were granted, {} refused, {} live; the longest waited {:.1} s\n",
        account.begun, account.granted, account.refused, account.live, account.longest_wait_s
    );
    Ok(Outcome { text, status })
}
