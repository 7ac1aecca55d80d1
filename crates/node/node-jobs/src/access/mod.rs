//! Who may open which device node: what the kernel has, what the journal wants, and bringing the two together.

mod device_nodes;
mod settle;
mod wanted;

pub use device_nodes::{Access, DeviceError, Devices, gpu_node};
pub(crate) use settle::{caps_now, lock_deadline, settle};
pub(crate) use wanted::caps;
pub use wanted::{GpuFacts, device_nodes};
