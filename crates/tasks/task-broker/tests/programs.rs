//! Whole programs whose tasks begin, nest and end at random on one device: each of them comes to its end.
//!
//! The programs are those of `churn.c` (xtask). They know nothing of each other, and a process leaves the device only by ending. So a
//! circle among those that wait shows as a run that stands still.

#![allow(clippy::unwrap_used, reason = "tests")]

use task_broker::core::{Core, Effect, Image, Opened, POLICIES, Process, Sample, Seen};
use task_control::{Device, Job};
use task_sched::Bytes;
use task_wire::{Begin, Reply, Text};

const MIB: u64 = 1 << 20;
/// Of a `1g.5gb`.
const MEMORY_MIB: u64 = 4864;
const ROUNDS: u32 = 20;
const MOST_MIB: u64 = 4000;

/// splitmix64
struct Dice(u64);

impl Dice {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

/// How far a task has come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Asked,
    Granted,
    /// Another was begun inside it, or not: it ends next.
    Nested,
}

#[derive(Debug)]
struct Task {
    nonce: u64,
    mib: u64,
    stage: Stage,
}

#[derive(Debug)]
struct Program {
    number: u32,
    rounds: u32,
    /// Each inside the one before.
    tasks: Vec<Task>,
    next_nonce: u64,
    has_context: bool,
    lives: bool,
    /// NVML shows an ended one until the next look.
    is_shown: bool,
}

enum Act {
    Begin,
    Free,
    End,
    Nothing,
}

impl Program {
    fn process(&self) -> Process {
        Process { pid: 100 + self.number, start: 5 }
    }

    fn waits(&self) -> bool {
        self.tasks.last().is_some_and(|task| task.stage == Stage::Asked)
    }

    fn act(&mut self, dice: &mut Dice) -> Act {
        let depth = self.tasks.len();
        match self.tasks.last_mut() {
            None if self.rounds == ROUNDS => Act::End,
            None => {
                self.rounds += 1;
                Act::Begin
            }
            Some(task) if task.stage == Stage::Granted => {
                task.stage = Stage::Nested;
                if depth < 3 && dice.draw(4) == 0 { Act::Begin } else { Act::Nothing }
            }
            Some(_) => Act::Free,
        }
    }
}

struct Run {
    core: Core,
    programs: Vec<Program>,
    dice: Dice,
    context_mib: u64,
    t: f64,
}

impl Run {
    fn new(policy: &str, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let (count, context_mib) = (2 + dice.draw(5), 100 + dice.draw(800));
        let mut core = Core::new(policy, Bytes(512 * MIB)).unwrap();
        let uuid = "MIG-1".to_owned();
        let device = Device {
            uuid: uuid.clone(),
            group: uuid.clone(),
            mps_pipe: None,
            memory_mib: MEMORY_MIB,
            sms: 14,
            workers: 6,
        };
        let program = |number: u64| {
            let number = u32::try_from(number).unwrap();
            let opened = [Opened { uuid: uuid.clone(), free: MEMORY_MIB * MIB, used: 0 }];
            let job =
                Job { job: number, uid: 1000, seats: 1, gpu_mem_mib: None, devices: vec![device.clone()] };
            core.add_job(&job, &opened, 0.0).unwrap();
            Program {
                number,
                rounds: 0,
                tasks: Vec::new(),
                next_nonce: 1,
                has_context: false,
                lives: true,
                is_shown: true,
            }
        };
        let programs = (0..count).map(program).collect();
        Self { core, programs, dice, context_mib, t: 0.0 }
    }

    /// NVML's answer: contexts are larger or smaller than the broker thinks.
    fn look(&mut self) -> Vec<Effect> {
        self.programs
            .iter_mut()
            .filter(|program| !program.lives)
            .for_each(|program| program.is_shown = false);
        let shown = self.programs.iter().filter(|program| program.has_context && program.is_shown);
        let seen = |program: &Program| {
            let granted = program.tasks.iter().filter(|task| task.stage != Stage::Asked);
            let mib = self.context_mib + granted.map(|task| task.mib).sum::<u64>();
            Seen { process: program.process(), used: Some(mib * MIB), is_server: false }
        };
        let processes: Vec<Seen> = shown.map(seen).collect();
        let used = processes.iter().filter_map(|seen| seen.used).sum();
        let id = self.core.uuids().next().unwrap().0;
        self.core.sampled(id, &Sample { used, processes }, self.t)
    }

    fn go_on(&mut self, at: usize) -> Vec<Effect> {
        let program = &mut self.programs[at];
        let (process, t) = (program.process(), self.t);
        match program.act(&mut self.dice) {
            Act::Nothing => Vec::new(),
            Act::End => {
                program.lives = false;
                self.core.process_ended(process, t)
            }
            Act::Free => {
                let task = program.tasks.pop().unwrap();
                self.core.free(Image { process, image: 1 }, task.nonce, t)
            }
            Act::Begin => {
                let (nonce, mib) = (program.next_nonce, 1 + self.dice.draw(MOST_MIB));
                program.next_nonce += 1;
                program.tasks.push(Task { nonce, mib, stage: Stage::Asked });
                let (blocks, threads) = (1 + self.dice.draw(1000), 32 * (1 + self.dice.draw(32)));
                let begin = Begin {
                    image: 1,
                    nonce,
                    mem: mib * MIB,
                    managed: 0,
                    blocks,
                    threads,
                    whole: false,
                    sticky: false,
                    bound: Text::EMPTY,
                };
                self.core.begin(program.number, process, &begin, t)
            }
        }
    }

    fn told(&mut self, effects: &[Effect]) {
        for effect in effects {
            let Effect::Reply(process, reply) = effect else { continue };
            let program = self.programs.iter_mut().find(|program| program.process() == *process).unwrap();
            match reply {
                Reply::Granted(_) => {
                    program.tasks.last_mut().unwrap().stage = Stage::Granted;
                    program.has_context = true;
                }
                Reply::Refused(_) => drop(program.tasks.pop()),
                _ => {}
            }
        }
    }

    /// Until all have ended. The error is a run that stands still.
    fn play(&mut self) -> Result<(), String> {
        let mut looks_in_vain = 0;
        while self.programs.iter().any(|program| program.lives) {
            self.t += 1.0;
            let able = |at: &usize| self.programs[*at].lives && !self.programs[*at].waits();
            let able: Vec<usize> = (0..self.programs.len()).filter(able).collect();
            looks_in_vain = if able.is_empty() { looks_in_vain + 1 } else { 0 };
            if looks_in_vain > 5 {
                return Err(format!("{:?}\n{:?}", self.programs, self.core.status(self.t)));
            }
            let effects = if able.is_empty() || self.dice.draw(10) == 0 {
                self.look()
            } else {
                let at = usize::try_from(self.dice.draw(able.len() as u64)).unwrap();
                self.go_on(able[at])
            };
            self.told(&effects);
        }
        Ok(())
    }
}

#[test]
fn programs_beside_each_other_all_come_to_their_end() {
    for policy in POLICIES {
        for seed in 0..400 {
            let mut run = Run::new(policy, seed);
            run.play().unwrap_or_else(|stands| panic!("{policy}, seed {seed}: all wait: {stands}"));
        }
    }
}
