//! `decide` against an exhaustive search that knows nothing of it: a success is legal and no legal choice is better,
//! and nothing is chosen only where nothing legal exists.
use crate::common::*;
use audit::{Price, every_grant, keep_fewest_gpus, legal, price};
use geometry::*;
use node_layout::{layout_of, parse_layout};
use node_state::*;
use placement::*;
use proptest::prelude::*;
use protocol::*;

fn check(node: &Node, ask: &Ask, policy: &Policy) -> Result<(), TestCaseError> {
    let decision = decide(node, ask, policy);
    prop_assert_eq!(audit::audit(node, ask, policy, &decision), []);
    let grants = every_grant(node, ask, policy);
    let mut grants: Vec<Grant> =
        grants.into_iter().filter(|g| legal(node, ask, policy, g).is_empty()).collect();
    keep_fewest_gpus(ask, &mut grants);
    let mut best: Vec<(Price, Grant)> = Vec::new();
    for (price, grant) in grants.into_iter().map(|g| (price(node, policy, &g), g)) {
        match best.iter_mut().find(|(p, _)| p.kind == price.kind) {
            Some(known) if price.beats_same_kind(&known.0) => *known = (price, grant),
            Some(_) => {}
            None => best.push((price, grant)),
        }
    }
    let best = best.into_iter().reduce(|a, b| if b.0.beats_other_kind(&a.0) { b } else { a });
    match (&decision.chosen, best.map(|(_, grant)| grant)) {
        // Which set, and which order of it: the audit has weighed them all.
        (Some(Grant::Whole(chosen)), Some(Grant::Whole(other))) => prop_assert_eq!(chosen.len(), other.len()),
        (Some(a @ Grant::Tasks(one)), Some(b @ Grant::Tasks(_)))
            if matches!(one.on, TaskDevices::Own { .. }) =>
        {
            prop_assert_eq!(a.gpus().len(), b.gpus().len());
        }
        (chosen, best) => {
            prop_assert_eq!(chosen, &best, "{}\n{}", decision_text::decision(&decision), layout_of(node))
        }
    }
    prop_assert_eq!(fits(node, ask, policy), decision.chosen.is_some());
    prop_assert!(
        Room::of(node).may_fit(&Least::of(ask, policy)) || decision.chosen.is_none(),
        "{}",
        layout_of(node)
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_decision_on_any_state_passes_the_audit((mut node, events) in (empty_nodes(4), events(12)), ask in asks(1), policy in site_policies()) {
        live(&mut node, &policy, &events);
        check(&node, &Ask { job: JobId(999), ..ask }, &policy)?;
    }

    #[test]
    fn several_instances_on_any_state_pass_the_audit((mut node, events) in (empty_nodes(2), events(6)), ask in asks(3), policy in site_policies()) {
        live(&mut node, &policy, &events);
        check(&node, &Ask { job: JobId(999), ..ask }, &policy)?;
    }

    #[test]
    fn gpus_kept_for_something((mut node, events) in (ruled_nodes(4), events(12)), ask in asks(1), policy in site_policies()) {
        let fixed = static_instances(&node);
        live(&mut node, &policy, &events);
        check(&node, &Ask { job: JobId(999), ..ask.clone() }, &policy)?;
        let mut run = node.clone();
        if let Some(grant) = decide(&node, &ask, &policy).chosen {
            run.apply(JobId(999), ask.uid, &grant).unwrap();
            prop_assert_eq!(audit::audit_node(&run), []);
        }
        run.release(JobId(999));
        prop_assert_eq!(static_instances(&run), fixed);
    }

    #[test]
    fn several_instances_on_kept_gpus((mut node, events) in (ruled_nodes(3), events(6)), ask in asks(3), policy in site_policies()) {
        live(&mut node, &policy, &events);
        check(&node, &Ask { job: JobId(999), ..ask }, &policy)?;
    }

    #[test]
    fn whole_sets_beside_kept_gpus((mut node, events) in (ruled_nodes(8), events(3)), whole in whole_asks(), plain in any::<bool>(), policy in site_policies()) {
        live(&mut node, &policy, &events);
        check(&node, &Ask { plain, ..whole }, &policy)?;
    }

    #[test]
    fn whole_gpu_sets_on_any_state_pass_the_audit((mut node, events) in (empty_nodes(8), events(3)), whole in whole_asks(), policy in site_policies()) {
        live(&mut node, &policy, &events);
        check(&node, &whole, &policy)?;
    }

    #[test]
    fn remembered_sets_are_the_same((mut node, events) in (empty_nodes(8), events(3)), asks in prop::collection::vec(whole_asks(), 2..6), policy in site_policies()) {
        live(&mut node, &policy, &events);
        let mut memo = mapa::Memo::default();
        for ask in asks.iter().chain(&asks) {
            prop_assert_eq!(decide_with(&node, ask, &policy, &mut memo), decide(&node, ask, &policy));
        }
    }

    #[test]
    fn release_takes_back_all_that_apply_gave((mut node, events) in (empty_nodes(3), events(10)), ask in asks(3), policy in site_policies()) {
        live(&mut node, &policy, &events);
        let ask = Ask { job: JobId(999), ..ask };
        let before = node.clone();
        if let Some(grant) = decide(&node, &ask, &policy).chosen {
            node.apply(ask.job, ask.uid, &grant).unwrap();
            prop_assert_eq!(node.gpus_of(ask.job).collect::<Vec<_>>(), grant.gpus());
            prop_assert_eq!(node.apply(ask.job, ask.uid, &grant), Err(ApplyError::AlreadyHere(ask.job)));
            prop_assert!(node.release(ask.job));
        }
        prop_assert!(!node.release(ask.job));
        // Idle instances may differ; whatever a job holds does not, and what could be decided next is as good.
        let held = |node: &Node| {
            let mut node = node.clone();
            for gpu in &mut node.gpus {
                if let GpuState::Mig(instances) = &mut gpu.state {
                    instances.retain(|i| i.holder != Holder::Idle);
                    if instances.is_empty() {
                        gpu.state = GpuState::Free;
                    }
                }
            }
            layout_of(&node).to_string()
        };
        prop_assert_eq!(held(&before), held(&node));
    }

    #[test]
    fn a_refused_grant_changes_nothing((mut node, events) in (empty_nodes(2), events(10)), other in empty_nodes(2), ask in asks(2), policy in site_policies()) {
        live(&mut node, &policy, &events);
        if let Some(grant) = decide(&other, &ask, &policy).chosen {
            let before = layout_of(&node).to_string();
            if node.apply(JobId(999), ask.uid, &grant).is_err() {
                prop_assert_eq!(before, layout_of(&node).to_string());
            }
            prop_assert_eq!(audit::audit_node(&node), []);
        }
    }

    #[test]
    fn layouts_are_read_back((mut node, events) in (prop_oneof![empty_nodes(6), ruled_nodes(6)], events(20)), policy in site_policies()) {
        live(&mut node, &policy, &events);
        let line = layout_of(&node).to_string();
        let layout = parse_layout(&line).unwrap();
        prop_assert_eq!(&layout, &layout_of(&node));
        let mut restarted = node.clone();
        // The site's own instances are known from its configuration.
        for gpu in restarted.gpus.iter_mut().filter(|g| g.purpose != Purpose::Static) {
            if let GpuState::Mig(instances) = &mut gpu.state {
                instances.retain(|i| i.holder != Holder::Idle);
            }
        }
        node_layout::remember_idle(&mut restarted, &layout);
        prop_assert_eq!(layout_of(&restarted).to_string(), line);
    }

    #[test]
    fn no_text_makes_the_layout_parser_panic(text in "tessera( gpu[0-9]{1,2}=(free|mig|whole|mps)?[\\[\\]@:,+%/a-z0-9.]{0,20}){0,4}", cut in 0..80_usize) {
        let cut: String = text.chars().take(cut).collect();
        let _ = parse_layout(&text);
        let _ = parse_layout(&cut);
    }
}
