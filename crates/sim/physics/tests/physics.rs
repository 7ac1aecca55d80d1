//! What the simulated GPU does: caps, clocks, contention, and the classes of the paper.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

use physics::{App, Board, Class, Tenant, apps, counters, find, run};
use proptest::prelude::*;

fn alone<'a>(board: &Board, app: &'a App, gpcs: u8, is_private: bool) -> Tenant<'a> {
    let modules = if is_private { board.modules_of(gpcs) } else { board.modules };
    Tenant { app, gpcs, instance: 0, modules }
}

/// Performance relative to alone on the whole GPU.
fn rperf(app: &App, gpcs: u8, is_private: bool, cap_w: f64) -> f64 {
    let board = Board::a100_pcie();
    let speed = |tenant, cap_w| run(&board, &[tenant], cap_w).speeds[0];
    speed(alone(&board, app, gpcs, is_private), cap_w) / speed(alone(&board, app, 8, false), 250.0)
}

/// 4 and 3 GPCs, private or shared.
fn pair<'a>(a: &'a App, b: &'a App, is_private: bool) -> [Tenant<'a>; 2] {
    let modules = if is_private { 4 } else { 8 };
    [
        Tenant { app: a, gpcs: 4, instance: 0, modules },
        Tenant { app: b, gpcs: 3, instance: u8::from(is_private), modules },
    ]
}

#[test]
fn each_application_meets_its_class_by_the_papers_rule() {
    let board = Board::a100_pcie();
    assert_eq!(apps().len(), 24);
    for app in apps() {
        let f = counters(&board, app);
        let tensor = f[5] + f[6] + f[7] > 0.0;
        let class = match (rperf(app, 1, true, 150.0) > 0.9, f[0] / f[1] > 0.8) {
            (true, _) => Class::Unscalable,
            (_, true) if tensor => Class::Tensor,
            (_, true) => Class::Compute,
            _ => Class::Memory,
        };
        assert_eq!(class, app.class, "{}", app.name);
        assert!(f.iter().all(|f| (0.0..=100.0).contains(f)) && f[0] > 0.0, "{}: {f:?}", app.name);
    }
}

#[test]
fn kmeans_stream_dgemm_and_hgemm_scale_as_in_figures_4_and_5() {
    let of = |name: &str, gpcs, is_private, cap| rperf(find(name).unwrap(), gpcs, is_private, cap);
    // kmeans neither needs GPCs nor power nor memory of its own.
    for gpcs in [1, 2, 3, 4, 7] {
        assert!(of("kmeans", gpcs, true, 150.0) > 0.9 && of("kmeans", gpcs, false, 150.0) > 0.9);
    }
    // The option matters for stream, not for dgemm and hgemm.
    assert!(of("stream", 4, false, 250.0) > 1.8 * of("stream", 4, true, 250.0));
    for name in ["dgemm", "hgemm"] {
        assert!((of(name, 4, false, 250.0) / of(name, 4, true, 250.0) - 1.0).abs() < 0.08, "{name}");
    }
    // 150 W cost stream nothing, dgemm some, hgemm most.
    let lost = |name: &str| 1.0 - of(name, 7, false, 150.0) / of(name, 7, false, 250.0);
    assert!(lost("stream") < 0.02 && lost("dgemm") > 0.1 && lost("hgemm") > lost("dgemm"));
}

#[test]
fn clocks_are_steps_of_15_mhz_and_as_high_as_the_cap_allows() {
    let board = Board::a100_pcie();
    let hgemm = find("hgemm").unwrap();
    for cap in [100.0, 150.0, 170.0, 210.0, 250.0] {
        let tenants = [alone(&board, hgemm, 8, false)];
        let here = run(&board, &tenants, cap);
        assert!(here.watts <= cap && here.clock_mhz < board.clocks_mhz.1, "{here:?}");
        assert_eq!((here.clock_mhz - board.clocks_mhz.0) % 15, 0);
        // One step higher is reached with a little more power, not with less.
        let next = (1..).map(|more| run(&board, &tenants, cap + f64::from(more) * 0.25));
        let next = next.into_iter().find(|r| r.clock_mhz > here.clock_mhz).unwrap();
        assert!(next.clock_mhz == here.clock_mhz + 15 && next.watts > cap);
    }
    assert_eq!(run(&board, &[alone(&board, find("stream").unwrap(), 8, false)], 250.0).clock_mhz, 1410);
}

#[test]
fn private_tenants_share_nothing_but_the_clock() {
    let board = Board::a100_pcie();
    let of = |name| find(name).unwrap();
    let both = run(&board, &pair(of("stream"), of("needle"), true), 250.0);
    let one = run(&board, &pair(of("stream"), of("needle"), true)[..1], 250.0);
    assert_eq!((both.clock_mhz, both.speeds[0]), (1410, one.speeds[0]));
    // A hungry neighbour lowers the clock of both.
    let capped = run(&board, &pair(of("dgemm"), of("hgemm"), true), 150.0);
    let alone = run(&board, &pair(of("dgemm"), of("hgemm"), true)[..1], 150.0);
    assert!(capped.clock_mhz < alone.clock_mhz && capped.speeds[0] < alone.speeds[0]);
}

#[test]
fn memory_is_shared_and_never_over_subscribed() {
    let board = Board::a100_pcie();
    let (stream, random) = (find("stream").unwrap(), find("randomaccess").unwrap());
    let both = run(&board, &pair(stream, random, false), 250.0);
    let one = run(&board, &pair(stream, random, false)[..1], 250.0);
    assert!(both.speeds[0] < 0.8 * one.speeds[0]);
    let needed = both.speeds[0] * stream.dram + both.speeds[1] * random.dram;
    assert!(needed <= 1.0, "{needed}");
}

proptest! {
    /// More power never lowers the clock, nor the speed of anyone with private memory; the draw stays below the cap. Where
    /// memory is shared, a faster neighbour may ask for more of it.
    #[test]
    fn more_power_is_never_worse(a in 0..24_usize, b in 0..24_usize, is_private: bool, cap in 120..249_u32) {
        let board = Board::a100_pcie();
        let tenants = pair(&apps()[a], &apps()[b], is_private);
        let (less, more) = (run(&board, &tenants, f64::from(cap)), run(&board, &tenants, f64::from(cap + 1)));
        prop_assert!(less.watts <= f64::from(cap) && more.clock_mhz >= less.clock_mhz);
        for (less, more) in less.speeds.iter().zip(&more.speeds) {
            prop_assert!(!is_private || more >= &(less * (1.0 - 1e-9)), "{} {}", less, more);
        }
        prop_assert_eq!(&run(&board, &tenants, f64::from(cap)), &less);
    }
}
