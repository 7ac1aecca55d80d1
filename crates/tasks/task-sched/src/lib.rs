//! GPU tasks of independent programs, packed on the devices of one node.
//!
//! Memory is in bytes, compute in warps.
//!
//! # Words
//!
//! A *task* is what one lease covers: the memory, grid and block of some kernel launches of a program. The *pool* is the
//! devices (GPUs or MIG instances) of a node. A *worker* is a process with tasks; the papers and the event lines call it
//! a job. A *lease* is what a task was promised.
//!
//! # Problem
//!
//! A task begins before its first allocation and is freed after its last. At each begin, choose a device or let the task
//! wait; at each free, choose again for those that wait. No device may promise more memory than it has, because the
//! driver answers that with an error that ends the program. Compute may be promised twice: it only makes tasks slower.
//!
//! # Approach
//!
//! - [`Pool`] holds what each device has promised. It alone makes leases, and none above a device's memory.
//! - [`Policy`] chooses: [`policy::Alg2`] and [`policy::Alg3`] (CASE), [`policy::Tessera`] (ours).
//! - [`Scheduler`] keeps the queue: it asks the policy at every begin, and once for every waiting task after every free.
//!
//! Sources: Chen, Porter and Pande, "CASE: A Compiler-Assisted SchEduling Framework for Multi-GPU Systems", `PPoPP` '22;
//! Porter, Chen and Pande, "Compiler-Assisted Scheduling for Multi-Instance GPUs", GPGPU '22.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod device;
pub mod event;
pub mod event_line;
mod layout;
pub mod policy;
mod pool;
mod scheduler;
mod task;
mod units;

pub use device::{Device, DeviceId, workers_of};
pub use event::Event;
pub use layout::{Gpus, Instance};
pub use policy::{Policy, Refusal, Start, Verdict, Want};
pub use pool::{Held, Lease, Pool};
pub use scheduler::{Answer, Grant, Order, Scheduler, UnknownTask};
pub use task::{Among, Ask, Need, NeedError, TaskId, WorkerAsk, WorkerId};
pub use units::{Bytes, Warps};
