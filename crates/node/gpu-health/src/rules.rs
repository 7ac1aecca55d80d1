//! The treatment of unhealthy GPUs: Tessera's table in `data/rules.toml`, which names its sources, changed by a site's `[[health]]`.

use std::sync::LazyLock;

use site_config::{HealthAction, HealthEvent, HealthReturn, HealthRule, health_rules};

/// Treatment of a GPU after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<'a> {
    /// Treatment of the GPU and its jobs.
    pub action: HealthAction,
    /// The condition under which the GPU takes jobs again.
    pub returns: HealthReturn,
    /// Advice for an administrator.
    pub advice: &'a str,
}

/// Every event that has a rule of its own, in the order of the file. A test holds that the file has no error.
static TABLE: LazyLock<Vec<HealthRule>> =
    LazyLock::new(|| health_rules("rules.toml", include_str!("../data/rules.toml")).unwrap_or_default());

/// Treatment of an event without a rule.
const UNKNOWN: Rule<'_> = Rule {
    action: HealthAction::Ignore,
    returns: HealthReturn::Itself,
    advice: "see NVIDIA's catalogue of Xids",
};

/// The table with a site's changes.
#[derive(Clone, Debug, Default)]
pub struct Rules<'a> {
    site: &'a [HealthRule],
}

impl<'a> Rules<'a> {
    /// The table, changed by these rules.
    #[must_use]
    pub fn new(site: &'a [HealthRule]) -> Self {
        Self { site }
    }

    /// Gives the rule for an event.
    #[must_use]
    pub fn of(&self, event: HealthEvent) -> Rule<'a> {
        let own = TABLE.iter().find(|rule| rule.event == event).map_or(UNKNOWN, |rule| UNKNOWN.changed(rule));
        let Some(site) = self.site.iter().find(|rule| rule.event == event) else { return own };
        // An Xid that leaves the GPU out only because the site says so does not end by itself.
        let only_noted = own.action == HealthAction::Ignore && matches!(event, HealthEvent::Xid(_));
        let returns = if only_noted { HealthReturn::Reset } else { own.returns };
        Rule { returns, ..own }.changed(site)
    }
}

impl<'a> Rule<'a> {
    fn changed(self, by: &'a HealthRule) -> Self {
        Self {
            action: by.action.unwrap_or(self.action),
            returns: by.returns.unwrap_or(self.returns),
            advice: by.advice.as_deref().unwrap_or(self.advice),
        }
    }
}

#[cfg(test)]
mod tests {
    use HealthAction::{LeaveOut, Requeue};
    use HealthEvent::{Hot, Xid};
    use HealthReturn::{Accept, Reset};

    use super::*;

    #[test]
    fn a_site_changes_what_it_names() {
        let rule = |event, action, returns| HealthRule { event, action, returns, advice: None };
        let mut site =
            [rule(Xid(94), Some(LeaveOut), None), rule(Hot, None, Some(Accept)), rule(Xid(7778), None, None)];
        site[2].advice = Some("call 4711".to_owned());
        let rules = Rules::new(&site);
        let of = |event| (rules.of(event).action, rules.of(event).returns);
        assert_eq!(of(Xid(94)), (LeaveOut, Reset));
        assert_eq!(of(Hot), (LeaveOut, Accept));
        assert_eq!(of(Xid(79)), (Requeue, Reset));
        assert_eq!(rules.of(Hot).advice, "check the cooling");
        assert_eq!(rules.of(Xid(7777)), UNKNOWN);
        assert_eq!(rules.of(Xid(7778)).advice, "call 4711");
    }

    #[test]
    fn the_table_is_good_and_says_everything() {
        let rules = health_rules("rules.toml", include_str!("../data/rules.toml")).unwrap();
        assert_eq!(rules.len(), 32);
        for rule in &rules {
            let whole = rule.action.is_some() && rule.returns.is_some() && rule.advice.is_some();
            assert!(whole, "{}", rule.event);
            // What is only noted goes away; what leaves a GPU out after an Xid needs a reset.
            let noted = rule.action == Some(HealthAction::Ignore);
            let xid = matches!(rule.event, Xid(_));
            assert!(!noted || rule.returns == Some(HealthReturn::Itself), "{}", rule.event);
            assert!(noted || !xid || rule.returns == Some(Reset), "{}", rule.event);
        }
    }
}
