//! Checks that the driver leaves owners and modes of device nodes alone.
//!
//! With `NVreg_ModifyDeviceFiles=1`, the default, the setuid helper `nvidia-modprobe` gives a node the driver's own mode
//! whenever any user's program asks for it, and a new instance's capability nodes are everybody's until they are closed.
//! With 0 it makes and changes none, capability nodes included [open-gpu-kernel-modules, `nv-caps.c`: an entry's
//! `DeviceFileModify` begins as that parameter]; they are then made here, closed.

use node_jobs::Settings;

/// Says what is wrong with the driver's parameters, if anything; `None` also if Tessera does not manage device nodes.
pub(crate) fn complaint(settings: &Settings) -> Option<String> {
    if !settings.node.manage_device_nodes {
        return None;
    }
    let path = settings.node.proc_root.join("driver/nvidia/params");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) => return Some(format!("{}: cannot be read: {e}", path.display())),
    };
    let value = text.lines().find_map(|line| line.strip_prefix("ModifyDeviceFiles:")).map(str::trim);
    (value != Some("0")).then(|| {
        format!(
            "{}: ModifyDeviceFiles is {}: any user can reopen device nodes; load the driver with \
             NVreg_ModifyDeviceFiles=0",
            path.display(),
            value.unwrap_or("missing")
        )
    })
}
