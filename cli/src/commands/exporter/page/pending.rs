//! The jobs that wait.

use std::fmt::Write as _;

use crate::clock::span;
use crate::cluster_snapshot::{ClusterSnapshot, asks};
use crate::filter::Filter;
use crate::render::svg::escape;
use crate::slurm::squeue::QueuedJob;

/// Pending jobs that are listed.
const MOST: usize = 200;

/// Writes the waiting jobs that the filter wants, by priority. `names`: users may be named.
pub(super) fn pending(out: &mut String, seen: &ClusterSnapshot, filter: &Filter, names: bool, now: u64) {
    let wanted = |job: &&QueuedJob| job.waits() && filter.job(job);
    let mut waiting: Vec<&QueuedJob> = seen.jobs.iter().filter(wanted).collect();
    waiting.sort_by_key(|job| (std::cmp::Reverse(job.priority), job.id));
    if waiting.is_empty() {
        return;
    }
    let whose = if names { "<th>User</th>" } else { "" };
    let _ = write!(
        out,
        "<h2>Jobs that wait</h2><table><thead><tr><th>Job</th>{whose}<th>Asks for</th><th>Waiting</th>\
         <th>Slurm's reason</th></tr></thead><tbody>"
    );
    for job in waiting.iter().take(MOST) {
        let (id, number) = (job.id, escape(&job.number()));
        let user = if names { format!("<td>{}</td>", escape(&job.user)) } else { String::new() };
        let waited = job.submit.map_or_else(String::new, |submit| span(now.saturating_sub(submit)));
        let _ = write!(
            out,
            "<tr><td><a href=\"/jobs/{id}\" data-job=\"{id}\">{number}</a></td>{user}<td>{}</td><td>{waited}</td>\
             <td>{}</td></tr>",
            escape(&asks(job).unwrap_or_else(|| "no GPU".to_owned())),
            escape(&job.reason)
        );
    }
    out.push_str("</tbody></table>\n");
    if waiting.len() > MOST {
        let _ = writeln!(out, "<p>{} more wait.</p>", waiting.len() - MOST);
    }
}
