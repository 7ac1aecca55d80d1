//! Applications on a GPU: the clock that the cap allows, and the speed of each at that clock.

use crate::app::{App, Tensor};
use crate::board::{Activity, Board};

/// An application on some GPCs of one GPU instance.
#[derive(Clone, Copy, Debug)]
pub struct Tenant<'a> {
    /// What runs.
    pub app: &'a App,
    /// The GPCs that it has.
    pub gpcs: u8,
    /// The GPU instance: tenants with the same number share L2 and DRAM.
    pub instance: u8,
    /// Modules of that GPU instance.
    pub modules: u8,
}

/// What a GPU does with some tenants.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// The clock of the whole chip, MHz.
    pub clock_mhz: u32,
    /// Its draw, W. Above the cap only where the lowest clock is too much.
    pub watts: f64,
    /// Iterations of each tenant per time that one takes alone on an idealized GPU: comparable for one application only.
    pub speeds: Vec<f64>,
    /// Part of the time in which the GPCs of each tenant do something, 0 to 1: all but its launches and latencies.
    pub active: Vec<f64>,
}

/// Sharpness of the soft maximum over resources.
const SHARPNESS: f64 = 4.0;

/// One GPC can load this part of a GPC's equal share of the bandwidth of DRAM.
const GPC_LOADS: f64 = 2.1;

/// How much the traffic of others lengthens an access to DRAM that is not over-subscribed.
const QUEUEING: f64 = 0.12;

/// How much the L2 traffic of others lengthens the latencies of a serial part.
const LATENCY: f64 = 0.8;

/// Part of the bandwidth that is usable when several tenants compete.
const SHARED_EFFICIENCY: f64 = 0.95;

/// Runs tenants under a cap, W.
#[must_use]
pub fn run(board: &Board, tenants: &[Tenant<'_>], cap_w: f64) -> Running {
    let at = |step: u32| at_clock(board, tenants, board.clock_mhz(step));
    // The draw grows with the clock: the highest step below the cap.
    let (mut low, mut high) = (0, board.steps());
    while low < high {
        let middle = (low + high).div_ceil(2);
        if at(middle).watts <= cap_w { low = middle } else { high = middle - 1 }
    }
    at(low)
}

fn at_clock(board: &Board, tenants: &[Tenant<'_>], mhz: u32) -> Running {
    let clock = board.relative(mhz);
    let mut paces: Vec<Pace> =
        tenants.iter().enumerate().map(|(at, t)| pace(board, tenants, at, t, clock)).collect();
    let mut instances: Vec<u8> = tenants.iter().map(|t| t.instance).collect();
    instances.sort_unstable();
    instances.dedup();
    for instance in instances {
        let inside: Vec<usize> = (0..tenants.len()).filter(|at| tenants[*at].instance == instance).collect();
        contend(board, tenants, &inside, &mut paces);
    }
    let activity = |(tenant, pace): (&Tenant<'_>, &Pace)| Activity {
        gpcs: f64::from(tenant.gpcs),
        vector: tenant.app.vector / pace.time(),
        tensor: tenant.app.tensor / pace.time(),
        dram: pace.traffic / pace.time(),
    };
    Running {
        clock_mhz: mhz,
        watts: board.watts(clock, tenants.iter().zip(&paces).map(activity)),
        speeds: paces.iter().map(|pace| 1.0 / pace.time()).collect(),
        active: paces.iter().map(|pace| 1.0 - pace.serial / pace.time()).collect(),
    }
}

/// How long each part of an iteration takes.
#[derive(Clone, Copy, Debug)]
struct Pace {
    compute: f64,
    l2: f64,
    dram: f64,
    serial: f64,
    /// DRAM traffic of an iteration.
    traffic: f64,
    /// By what DRAM is slower because of others.
    wait: f64,
}

impl Pace {
    fn time(&self) -> f64 {
        let powers = [self.compute, self.l2, self.dram * self.wait].map(|t| t.powf(SHARPNESS));
        powers.iter().sum::<f64>().powf(1.0 / SHARPNESS) + self.serial
    }
}

/// The pace of a tenant whose neighbours take cache but no bandwidth.
fn pace(board: &Board, all: &[Tenant<'_>], at: usize, tenant: &Tenant<'_>, clock: f64) -> Pace {
    let app = tenant.app;
    let part = |count: u8, whole: u8| f64::from(count) / f64::from(whole);
    let units = f64::from(tenant.gpcs).min(app.width) / f64::from(board.gpcs);
    let compute = app.vector.max(app.tensor) + 0.3 * app.vector.min(app.tensor);
    let modules = part(tenant.modules, board.modules);
    let bandwidth = modules.min(GPC_LOADS * part(tenant.gpcs, board.gpcs));
    // Cache lines go to whom uses them: a neighbour takes its part of L2.
    let neighbours = all.iter().enumerate().filter(|(n, t)| *n != at && t.instance == tenant.instance);
    let theirs: f64 = neighbours.map(|(_, t)| t.app.l2).sum();
    let cache = modules * app.l2 / (app.l2 + theirs);
    let hit = app.hit * (1.0 - app.footprint * (1.0 - cache));
    let traffic = app.dram * (1.0 - hit) / (1.0 - app.hit);
    Pace {
        compute: compute / (units * clock),
        l2: app.l2 / (modules * clock),
        dram: traffic / bandwidth,
        serial: app.serial * (app.clocked / clock + 1.0 - app.clocked),
        traffic,
        wait: 1.0,
    }
}

/// Lets the tenants of one GPU instance wait for its DRAM.
fn contend(board: &Board, tenants: &[Tenant<'_>], inside: &[usize], paces: &mut [Pace]) {
    let [first, _, ..] = inside else { return };
    let bandwidth = SHARED_EFFICIENCY * f64::from(tenants[*first].modules) / f64::from(board.modules);
    let demand = |paces: &[Pace], at: usize| paces[at].traffic / paces[at].time();
    let alone: Vec<f64> = inside.iter().map(|at| demand(paces, *at)).collect();
    let total: f64 = alone.iter().sum();
    let l2: Vec<f64> = inside.iter().map(|at| tenants[*at].app.l2 / paces[*at].time()).collect();
    let l2_total: f64 = l2.iter().sum();
    for (n, at) in inside.iter().enumerate() {
        paces[*at].dram *= 1.0 + QUEUEING * (total - alone[n]);
        paces[*at].serial *= 1.0 + LATENCY * (l2_total - l2[n]);
    }
    let served = |paces: &mut [Pace], wait: f64| {
        inside.iter().for_each(|at| paces[*at].wait = wait);
        inside.iter().map(|at| demand(paces, *at)).sum::<f64>()
    };
    if served(paces, 1.0) <= bandwidth {
        return;
    }
    // The longer they wait, the less they ask: halve the interval that holds the wait at which all are served.
    let (mut low, mut high) = (1.0, 1.0 + 4.0 * total / bandwidth);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if served(paces, middle) > bandwidth { low = middle } else { high = middle }
    }
    served(paces, high);
}

/// F1 to F8 of an application, percent: a profiler's run alone on the whole GPU without a lower cap.
///
/// Compute, memory and DRAM throughput, L2 hit rate, occupancy, tensor cores in mixed, double and integer precision.
#[must_use]
pub fn counters(board: &Board, app: &App) -> [f64; 8] {
    let tenant = Tenant { app, gpcs: board.gpcs, instance: 0, modules: board.modules };
    let running = run(board, &[tenant], f64::from(board.limit_w));
    let clock = board.relative(running.clock_mhz);
    let time = 1.0 / running.speeds[0];
    let percent = |busy: f64| (100.0 * busy / time).min(100.0);
    let tensor = |kind: Tensor| if app.tensor_kind == Some(kind) { percent(app.tensor / clock) } else { 0.0 };
    let dram = percent(app.dram);
    [
        percent((app.vector.max(app.tensor) + 0.3 * app.vector.min(app.tensor)) / clock),
        dram.max(percent(app.l2 / clock)),
        dram,
        100.0 * app.hit,
        100.0 * app.occupancy,
        tensor(Tensor::Mixed),
        tensor(Tensor::Double),
        tensor(Tensor::Integer),
    ]
}
