//! The page of a job: its request, its part of each GPU, and the answer of `tessera why`.

use std::fmt::Write as _;

use super::{User, View, node};
use crate::clock::span;
use crate::cluster_snapshot::{ClusterSnapshot, NodeSeen, asks};
use crate::job_use::JobUse;
use crate::render::svg::escape;
use crate::slurm::squeue::QueuedJob;

/// Nodes whose GPUs are drawn.
const MOST_NODES: usize = 16;

/// The job's title for a person: `Job 12`.
pub(super) fn title(view: View<'_>, id: u32) -> String {
    let job = view.seen.and_then(|seen| seen.jobs.iter().find(|job| job.id == id));
    format!("Job {}", job.map_or_else(|| id.to_string(), QueuedJob::number))
}

/// Writes the facts of a job; `told` is the answer of `tessera why`, `known` its name and use.
pub(super) fn job(view: View<'_>, id: u32, (told, known): (&str, &JobUse), user: User<'_, '_>) -> String {
    let mut out = format!("<article class=\"job\"><h2>{}", escape(&title(view, id)));
    let found = view.seen.and_then(|seen| Some((seen, seen.jobs.iter().find(|job| job.id == id)?)));
    match found {
        Some((seen, job)) => {
            let _ =
                writeln!(out, " <small class=\"state\">{}</small></h2>", escape(&job.state.to_lowercase()));
            facts(&mut out, job, view, known);
            gpus(&mut out, seen, job, user);
        }
        None => out.push_str("</h2>\n"),
    }
    out.push_str("<h3>In words</h3>");
    for paragraph in told.trim_end().split("\n\n") {
        let _ = writeln!(out, "<pre>{}</pre>", escape(paragraph));
    }
    out.push_str("</article>\n");
    out
}

fn facts(out: &mut String, job: &QueuedJob, view: View<'_>, known: &JobUse) {
    let since = |at: Option<u64>| at.map(|at| span(view.now.saturating_sub(at)));
    let waits = job.waits();
    let left = job.end.filter(|_| job.state == "RUNNING").map(|end| span(end.saturating_sub(view.now)));
    let some = |text: &str| (!text.is_empty() && text != "N/A").then(|| text.to_owned());
    let facts = [
        ("Name", known.name.clone().filter(|_| view.names)),
        ("Asks for", asks(job)),
        ("User", some(&job.user).filter(|_| view.names)),
        ("Account", some(&job.account).filter(|_| view.names)),
        ("Partition", some(&job.partition)),
        ("Nodes", some(&job.nodes)),
        ("Waiting for", since(job.submit).filter(|_| waits)),
        ("Slurm's reason", some(&job.reason).filter(|_| waits)),
        ("Running for", since(job.start).filter(|_| !waits)),
        ("Time left at most", left),
        ("Used", known.used.clone().filter(|_| view.names)),
    ];
    out.push_str("<dl>");
    for (what, value) in facts {
        if let Some(value) = value {
            let _ = write!(out, "<div><dt>{what}</dt><dd>{}</dd></div>", escape(&value));
        }
    }
    out.push_str("</dl>\n");
}

/// The GPUs of which the job has a part, on its first nodes.
fn gpus(out: &mut String, seen: &ClusterSnapshot, job: &QueuedJob, user: User<'_, '_>) {
    let mut on = seen.nodes.iter().filter(|node| node.jobs().any(|id| id == job.id));
    let drawn: Vec<&NodeSeen> = on.by_ref().take(MOST_NODES).collect();
    for seen in &drawn {
        node::of_job(out, seen, job.id, user);
    }
    let more = on.count();
    if more > 0 {
        let _ = writeln!(out, "<p>It has GPUs on {more} more nodes.</p>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_snapshot::tests::seen;
    use crate::commands::exporter::changes::Changes;
    use crate::commands::exporter::page::tests::view;

    #[test]
    fn a_job_has_its_facts_its_gpus_and_words() {
        let (mut seen, changes) = (seen(), Changes::default());
        seen.jobs[0].user = "<i>alice".to_owned();
        let view = View { names: true, ..view(&seen, &changes) };
        let known = JobUse {
            name: Some("<b>net".to_owned()),
            used: Some("at most 12.6 GB of GPU memory; GPUs busy 61 % on average, 93 % at most".to_owned()),
        };
        let shown = job(view, 11, ("job 11 runs\n\non <n1>\n", &known), &|_| Some("<i>alice"));
        insta::assert_snapshot!(shown, @r#"
        <article class="job"><h2>Job 11 <small class="state">running</small></h2>
        <dl><div><dt>Name</dt><dd>&lt;b&gt;net</dd></div><div><dt>Asks for</dt><dd>3g.20gb</dd></div><div><dt>User</dt><dd>&lt;i&gt;alice</dd></div><div><dt>Partition</dt><dd>gpu</dd></div><div><dt>Running for</dt><dd>11 min</dd></div><div><dt>Time left at most</dt><dd>50 min</dd></div><div><dt>Used</dt><dd>at most 12.6 GB of GPU memory; GPUs busy 61 % on average, 93 % at most</dd></div></dl>
        <section><h3><a href="/nodes/n1">n1</a> <small>1 x a100-40gb, links pcie</small></h3><div class="gpu ruler" aria-hidden="true"><span class="name">unit</span><ul class="pieces"><li class="u1">0</li><li class="u1">1</li><li class="u1">2</li><li class="u1">3</li><li class="u1">4</li><li class="u1">5</li><li class="u1">6</li><li class="u1">7</li></ul></div>
        <div class="gpu"><a class="name" href="/nodes/n1#gpu-0" data-node="n1" data-gpu="0" title="a100-40gb">GPU 0</a><ul class="pieces"><li class="isolated u4" title="3g.20gb job 11"><b>3g.20gb</b> <a href="/jobs/11" data-job="11">job 11<span> (&lt;i&gt;alice)</span></a></li><li class="idle u1" title="1g.5gb idle"><b>1g.5gb</b> idle</li><li class="free u3" title="free">free</li></ul></div></section>
        <h3>In words</h3><pre>job 11 runs</pre>
        <pre>on &lt;n1&gt;</pre>
        </article>
        "#);
        let unknown = job(View { names: false, ..view }, 99, ("Slurm knows no job 99", &known), &|_| None);
        insta::assert_snapshot!(unknown, @r#"
        <article class="job"><h2>Job 99</h2>
        <h3>In words</h3><pre>Slurm knows no job 99</pre>
        </article>
        "#);
        let unnamed = job(View { names: false, ..view }, 11, ("", &known), &|_| None);
        assert!(
            !["alice", "net", "61 %"].iter().any(|said| unnamed.contains(said)),
            "nobody is named: {unnamed}"
        );
    }

    #[test]
    fn of_a_job_on_many_nodes_few_are_drawn() {
        let (mut seen, changes) = (seen(), Changes::default());
        let node = |i: usize| {
            crate::cluster_snapshot::tests::node(
                &format!("m{i}"),
                "gpu",
                true,
                &["a100-40gb"],
                "tessera gpu0=whole[job13]",
            )
        };
        seen.nodes.extend((0..200).map(node));
        let shown = job(view(&seen, &changes), 13, ("", &JobUse::default()), &|_| None);
        assert_eq!(shown.matches("<section>").count(), MOST_NODES);
        // Two of the site's own nodes have it as well.
        assert!(shown.contains("It has GPUs on 186 more nodes."), "{shown}");
    }
}
