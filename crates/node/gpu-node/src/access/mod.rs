//! Who may open which device node: what the kernel has, what the journal wants, and bringing the two together.

mod device_nodes;
mod driver_params;
mod settle;
mod wanted;

pub use device_nodes::DeviceError;
pub(crate) use device_nodes::{Access, Devices, GPU_MAJOR, gpu_node};
pub(crate) use driver_params::complaint;
pub(crate) use settle::{caps_now, lock_deadline, settle};
pub(crate) use wanted::{GpuFacts, caps, device_nodes};
