//! Numbers of GPUs and shards: of a node in `tessera.toml`, and in a GRES of Slurm's.

use site_config::SiteConfig;

/// The GPUs and shards that a node of `tessera.toml` has.
pub(super) fn counts_of(name: &str, config: &SiteConfig) -> Option<[(&'static str, u32); 2]> {
    let spec = config.node(name)?;
    let gpus = u32::try_from(spec.gpus.len()).unwrap_or(u32::MAX);
    Some([("gpu", gpus), ("shard", spec.gpus.iter().map(|m| m.shards()).sum())])
}

/// The entries of a node's GRES, without their parentheses.
fn entries(gres: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    let parts = gres.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && c == ','
    });
    parts.map(|part| part.split('(').next().unwrap_or_default())
}

/// The number of a GRES: `gpu:a100:8(S:0-1),shard:320` has 8 `gpu`.
pub(super) fn count(gres: &str, kind: &str) -> u32 {
    let number = |part: &str| {
        let mut words = part.split(':');
        (words.next() == Some(kind)).then(|| words.next_back().and_then(|n| n.parse().ok()).unwrap_or(1_u32))
    };
    entries(gres).filter_map(number).sum()
}
