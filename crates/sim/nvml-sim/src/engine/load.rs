//! What a GPU does now: the clock that its power limit allows, its draw, and how fast each program runs.

use physics::{App, Board, Draw, Tenant};

use super::activity::{Activity, SLOTS};
use super::code::{Answer, Code};
use super::fault::{self, Kind};
use super::state::State;
use super::traffic::Traffic;
use super::worker::Worker;

/// A GPU at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Clock of the SMs, MHz.
    pub clock_mhz: u32,
    /// Draw, mW.
    pub power_mw: u32,
    /// Whether the clock is below the highest because of the power limit.
    pub is_capped: bool,
    /// Each program's process and its speed: iterations per second, if one alone on an idealized GPU takes a second.
    pub speeds: Vec<(u32, f64)>,
    /// How busy each GPU instance is, by its id, and the whole GPU, at [`super::activity::WHOLE`].
    pub activity: [Activity; SLOTS],
    /// Bytes that it sends and receives.
    pub traffic: Traffic,
}

/// An idle GPU's graphics clock, MHz.
pub const IDLE_MHZ: u32 = 210;

/// GPCs and memory modules of a GPU without MIG, for which no table says them.
const UNDIVIDED: u8 = 8;

impl State {
    /// What a GPU does now.
    ///
    /// Programs compute as `physics` says. A process without an application draws nine tenths of the default limit.
    ///
    /// # Errors
    ///
    /// There is no such GPU, as for [`State::gpu`].
    pub fn load(&self, gpu: u32) -> Answer<Load> {
        let board = self.board(gpu)?;
        let limit_mw = self.enforced_limit(gpu)?;
        let workers: Vec<(&Worker, &'static App)> = self.workers_on(gpu).collect();
        let tenants = self.tenants(gpu, &board, &workers)?;
        let running = physics::run(&board, &tenants, f64::from(limit_mw) / 1000.0);
        let computes = |pid: u32| workers.iter().any(|(worker, _)| worker.process.pid == pid);
        let others = self.processes(gpu, |process| !computes(process.pid))?;
        let floor_mw = if others.is_empty() { 0 } else { self.power_constraints(gpu)?.1 / 10 * 9 };
        let is_idle = tenants.is_empty() && others.is_empty();
        let activity = self.activity(gpu, board.gpcs, &tenants, &running.active, &others)?;
        let pids = workers.iter().map(|(worker, _)| worker.process.pid);
        Ok(Load {
            clock_mhz: if is_idle { IDLE_MHZ } else { running.clock_mhz },
            power_mw: milliwatts(running.watts).max(floor_mw.min(limit_mw)),
            is_capped: !is_idle && running.clock_mhz < board.clocks_mhz.1,
            speeds: pids.zip(running.speeds).collect(),
            activity,
            traffic: self.traffic(gpu),
        })
    }

    /// Speed of an application alone on a GPU without MIG, at the default power limit; as in [`Load::speeds`].
    ///
    /// # Errors
    ///
    /// There is no such GPU, as for [`State::gpu`].
    pub fn speed_alone(&self, gpu: u32, app: &App) -> Answer<f64> {
        let board = self.board(gpu)?;
        let whole = Tenant { app, gpcs: board.gpcs, instance: 0, modules: board.modules };
        let running = physics::run(&board, &[whole], f64::from(board.limit_w));
        running.speeds.first().copied().ok_or(Code::Unknown)
    }

    /// The power limit in force, mW: what was set, or what somebody enforces out of band if that is lower.
    ///
    /// # Errors
    ///
    /// There is no such GPU, as for [`State::gpu`].
    pub fn enforced_limit(&self, gpu: u32) -> Answer<u32> {
        let gpu = self.gpu(gpu)?;
        let now = fault::now_ms();
        let lower =
            gpu.faults.iter().filter(|fault| fault.is_active(now)).filter_map(|fault| match fault.kind {
                Kind::LimitEnforcedLower(watts) => Some(watts.saturating_mul(1000)),
                _ => None,
            });
        Ok(lower.fold(gpu.power_limit_mw, u32::min))
    }

    fn workers_on(&self, gpu: u32) -> impl Iterator<Item = (&Worker, &'static App)> {
        let here = self.workers.iter().filter(move |worker| worker.gpu == gpu);
        here.filter_map(|worker| Some((worker, physics::find(&worker.app)?)))
    }

    fn board(&self, gpu: u32) -> Answer<Board> {
        let chip = self.chip(gpu)?;
        let model = chip.model;
        let (gpcs, modules) = match (model.has_mig(), model.compute_slices) {
            (false, _) => (UNDIVIDED, UNDIVIDED),
            // One of eight GPCs is off while the GPU is divided.
            (true, 7) => (8, model.placement_units),
            (true, slices) => (slices, model.placement_units),
        };
        let draw = &chip.board.draw_w;
        Ok(Board {
            gpcs,
            modules,
            clocks_mhz: (IDLE_MHZ, chip.board.sm_mhz),
            limit_w: self.power_constraints(gpu)?.1 / 1000,
            draw: Draw {
                idle_w: draw.idle,
                gpc_w: draw.gpc,
                vector_w: draw.vector,
                tensor_w: draw.tensor,
                dram_w: draw.dram,
            },
        })
    }

    /// Programs on the same device have equal parts of its GPCs, one at least.
    fn tenants<'a>(
        &self,
        gpu: u32,
        board: &Board,
        workers: &[(&Worker, &'a App)],
    ) -> Answer<Vec<Tenant<'a>>> {
        let place = |worker: &Worker| (worker.process.gi, worker.process.ci);
        let mut tenants = Vec::new();
        for (worker, app) in workers {
            let sharing = workers.iter().filter(|(other, _)| place(other) == place(worker)).count();
            let (gpcs, instance, modules) = self.place(gpu, board, worker)?;
            let gpcs = (gpcs / u8::try_from(sharing).unwrap_or(u8::MAX)).max(1);
            tenants.push(Tenant { app, gpcs, instance, modules });
        }
        Ok(tenants)
    }

    /// GPCs, GPU instance and memory modules of a program's device.
    fn place(&self, gpu: u32, board: &Board, worker: &Worker) -> Answer<(u8, u8, u8)> {
        let Some(id) = worker.process.gi else { return Ok((board.gpcs, 0, board.modules)) };
        let gi = self.gpu(gpu)?.instances.iter().find(|gi| gi.id == id).ok_or(Code::InvalidArgument)?;
        let whole = self.chip(gpu)?.profile(gi.profile).map_or(1, |profile| profile.base.compute_slices);
        let part = worker.process.ci.and_then(|id| gi.cis.iter().find(|ci| ci.id == id));
        let slices = part.and_then(|ci| u8::try_from(ci.size).ok()).unwrap_or(whole);
        Ok((slices, u8::try_from(id).unwrap_or(u8::MAX), gi.size))
    }
}

fn milliwatts(watts: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a board draws 0 to 10 kW")]
    let whole = (watts * 1000.0).round() as u32;
    whole
}
