//! Sets of whole GPUs: the best linked free ones, and the largest sum of links.

use crate::common::*;
use geometry::*;
use node_state::*;
use placement::decide::link_sum::{Question, best_set};
use protocol::*;
use topology::*;

#[test]
fn whole_gpus_are_the_best_linked_free_ones() {
    let mut n = node(&[A100; 8], MigPolicy::Dynamic);
    n.links = dgx1().into();
    for (count, want, links) in
        [(2, &[0, 3][..], 50_000), (3, &[0, 2, 3], 125_000), (4, &[0, 1, 2, 3], 225_000)]
    {
        let free = (0..8).map(GpuIndex).collect();
        let q = Question { free, n: count, links: &n.links };
        let best = best_set(&q).unwrap();
        assert_eq!(
            (best.gpus.iter().collect::<Vec<_>>(), best.links_mb_s, best.exact),
            (gpus(want), links, true)
        );
    }
    held(&mut n, 1, 3, "1g.5gb", 0);
    let mut a = ask(2, "whole", "");
    a.request.gpus = Some(3);
    assert_eq!(run(&mut n, &a, &Policy::default()).chosen, Some(Grant::Whole(gpus(&[4, 6, 7]))));
    a.allowed = Some(GpuSet::from_bits(0b0100_0111));
    a.job = JobId(3);
    assert_eq!(run(&mut n, &a, &Policy::default()).chosen, Some(Grant::Whole(gpus(&[0, 1, 2]))));
}

/// Cliques hidden among strong stars: the bound must not cut the best set, and the limit must hold for 16 GPUs.
#[test]
fn sixteen_gpus_stay_within_the_limit() {
    let mut seed = 12345_u64;
    for round in 0..20 {
        let mut draw = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from(u32::try_from(seed >> 33).unwrap() % (round + 2)) * 12.5
        };
        let half: Vec<f64> = (0..256).map(|_| draw()).collect();
        let links = HardwareGraph::of_bandwidths(16, &|i, j| half[i.min(j) * 16 + i.max(j)]);
        for n in 1..=16 {
            let q = Question { free: GpuSet::from_bits(0xffff), n, links: &links };
            let best = best_set(&q).unwrap();
            assert!(best.exact, "{n} of 16");
            let sum = |set: u32| {
                let of: Vec<GpuIndex> = GpuSet::from_bits(u64::from(set)).iter().collect();
                let pairs = of.iter().enumerate().flat_map(|(i, a)| of[..i].iter().map(move |b| (*a, *b)));
                pairs.filter_map(|(a, b)| links.link(a, b)).map(|link| link.gbps()).sum::<f64>()
            };
            if round % 7 == 0 {
                let all = (0_u32..1 << 16).filter(|s| s.count_ones() as usize == n);
                let most = all.map(sum).fold(0.0, f64::max);
                #[expect(clippy::cast_precision_loss, reason = "small")]
                let found = best.links_mb_s as f64 / 1000.0;
                assert!((found - most).abs() < 1e-6, "{n}: {found} {most}");
            }
        }
        let q = Question { free: GpuSet::from_bits(0xff), n: 9, links: &links };
        assert_eq!(best_set(&q), None);
    }
}
