//! Which nodes a job rules out: by features, by name, and by the type of their GPUs.

use site_config::hostlist;
use site_limits::tres::Tres;

use crate::slurm::constraint::Constraint;
use crate::slurm::gres_type;
use crate::slurm::squeue::NodeOptions;

/// A job's options that rule out nodes.
#[derive(Debug, Default)]
pub(super) struct RulesOut {
    pub(super) constraint: Option<Constraint>,
    /// Nodes by name.
    pub(super) excluded: Vec<String>,
    /// Types that the node's GPUs must have.
    pub(super) types: Vec<String>,
    /// Options that are not looked at.
    pub(super) left_out: Vec<String>,
}

impl RulesOut {
    /// Reads the options. A constraint that counts nodes, a list that squeue has cut, and a type of shards are left out.
    pub(super) fn read(options: &NodeOptions, tres: &Tres) -> Self {
        let whole = |text: &String| text.len() < NodeOptions::MOST;
        let (types, mut left_out) = gres_type::named(&tres.gpu_entries());
        let mut rules = Self { types, ..Self::default() };
        let NodeOptions { features, excluded } = options;
        if !features.is_empty() {
            rules.constraint =
                Some(features).filter(|text| whole(text)).and_then(|text| Constraint::parse(text).ok());
            left_out.extend(rules.constraint.is_none().then(|| format!("--constraint={features}")));
        }
        if !excluded.is_empty() {
            let nodes =
                Some(excluded).filter(|text| whole(text)).and_then(|text| hostlist::expand(text).ok());
            left_out.extend(nodes.is_none().then(|| format!("--exclude={excluded}")));
            rules.excluded = nodes.unwrap_or_default();
        }
        Self { left_out, ..rules }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(features: &str, excluded: &str, gres: &str) -> RulesOut {
        let options = NodeOptions { features: features.to_owned(), excluded: excluded.to_owned() };
        RulesOut::read(&options, &Tres { per_node: Some(gres.to_owned()), ..Tres::default() })
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let read = of("h100|a100", "n[1-2]", "gres:gpu:h100:1");
        assert_eq!((read.excluded.len(), read.types, read.left_out), (2, vec!["h100".to_owned()], vec![]));
        assert!(read.constraint.is_some());
        let long = "n1,".repeat(NodeOptions::MOST);
        let cut = &long[..NodeOptions::MOST];
        let unread = of("[a|b]", cut, "gres:shard:h100:5");
        let named =
            ["--gres=shard:h100:5".to_owned(), "--constraint=[a|b]".to_owned(), format!("--exclude={cut}")];
        assert_eq!((unread.constraint, unread.excluded.len(), unread.left_out), (None, 0, named.to_vec()));
        assert_eq!(of("", "", "gres:gpu:2").left_out, [""; 0]);
    }
}
