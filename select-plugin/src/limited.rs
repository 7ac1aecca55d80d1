//! A job that a limit of the site forbids, though it was submitted: the limit is newer, or an administrator moved the job.

use admission::{Submission, forbids_counted, limits_of};
use protocol::Says;
use protocol::gres_list::Entry;
use site_config::SiteConfig;

use crate::effect::Effect;
use crate::view::{GresKind, JobView, NodeView};

/// Why the job must not start; `None`: it may. `reach` lists the nodes that it may run on.
pub(crate) fn why(
    view: &JobView,
    reach: impl FnOnce() -> Vec<String>,
    config: &SiteConfig,
) -> Option<String> {
    let mut job = Submission {
        request: view.request.clone(),
        partitions: view.partition.iter().cloned().collect(),
        account: view.account.clone(),
        exclusive: view.exclusive,
        ..Submission::default()
    };
    // Nodes are listed only if there is something to hold them against.
    if limits_of(&job, config).is_empty() {
        return None;
    }
    let counted = view.gres.iter().map(|entry| match entry.kind {
        GresKind::Gpu => Entry::per_node("gpu", entry.per_node.max(1)),
        GresKind::Shard => Entry::per_node("shard", entry.per_node),
    });
    let counted: Vec<Entry> = counted.collect();
    job.partition_nodes = Some(reach().into_iter().collect());
    forbids_counted(&job, &counted, config)
}

/// Keeps the job from these nodes, which are all, and says why in its AdminComment.
pub(crate) fn held(view: &JobView, why: String, nodes: &[NodeView]) -> Vec<Effect> {
    let all = Effect::RuleOut(nodes.iter().map(|node| node.index).collect());
    said(view, Says::Limited(why)).into_iter().chain([all]).collect()
}

/// Takes back what an earlier limit had said.
pub(crate) fn freed(view: &JobView) -> Option<Effect> {
    matches!(view.comment.says, Says::Limited(_)).then(|| said(view, Says::Nothing)).flatten()
}

fn said(view: &JobView, says: Says) -> Option<Effect> {
    if view.comment.says == says {
        return None;
    }
    Effect::comment(&view.comment, says, view.comment.asks.clone())
}
