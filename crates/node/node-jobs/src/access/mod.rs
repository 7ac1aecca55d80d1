//! Access to device nodes: the state in the kernel, the state that the journal wants, and the change from one to the other.

mod device_nodes;
mod settle;
mod wanted;

pub use device_nodes::{Access, DeviceError, Devices, gpu_node};
pub(crate) use settle::{caps_now, lock_deadline, settle};
pub use wanted::{both_caps, caps, gpu_access};
