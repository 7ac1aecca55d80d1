//! The two tables that a person reads.

use task_control::Status;
use task_control::status::{DeviceStatus, JobStatus, TaskState, TaskStatus};

use crate::render::table;

/// Devices, then tasks; a job without any has a line of its own. `user` names a job's user.
pub(super) fn tables(status: &Status, user: &dyn Fn(u32) -> String) -> String {
    let head = ["DEVICE", "MEMORY", "LEASED", "OVERHEAD", "QUARANTINED", "FREE", "WARPS", "PROCESSES"];
    let mut devices = vec![head.map(str::to_owned).to_vec()];
    devices.extend(status.devices.iter().map(device));
    let head = ["JOB", "USER", "TASK", "PID", "STATE", "SINCE", "MEMORY", "WARPS", "DEVICE"];
    let mut tasks = vec![head.map(str::to_owned).to_vec()];
    for job in &status.jobs {
        tasks.extend(job.tasks.iter().map(|t| task(job, &user(job.uid), t)));
        if job.tasks.is_empty() {
            tasks.push(vec![job.job.to_string(), user(job.uid), "-".to_owned()]);
        }
    }
    let held = status.devices.iter().filter_map(|d| Some((d, d.held.as_ref()?)));
    let held: String = held.map(|(d, why)| format!("\n{} grants nothing: {why}\n", d.uuid)).collect();
    let devices = table::render(&devices, &[1, 2, 3, 4, 5, 6, 7]);
    format!("{devices}\n{}{held}", table::render(&tasks, &[0, 2, 3, 5, 6, 7]))
}

fn device(d: &DeviceStatus) -> Vec<String> {
    let taken = d.leased_mib + d.overhead_mib + d.quarantined_mib;
    let sizes = [d.mem_mib, d.leased_mib, d.overhead_mib, d.quarantined_mib, d.mem_mib.saturating_sub(taken)];
    let mut row = vec![d.uuid.clone()];
    row.extend(sizes.map(|mib| format!("{mib}M")));
    row.extend([d.warps.to_string(), d.workers.to_string()]);
    row
}

fn task(job: &JobStatus, user: &str, t: &TaskStatus) -> Vec<String> {
    let state = match t.state {
        TaskState::Running => "running",
        TaskState::Waiting => "waiting",
        TaskState::Quarantined => "quarantined",
    };
    let row = [
        job.job.to_string(),
        user.to_owned(),
        t.task.to_string(),
        t.pid.to_string(),
        state.to_owned(),
        format!("{}s", t.since_s),
        format!("{}M", t.mem_mib),
        t.warps.to_string(),
        t.device.clone().unwrap_or_else(|| "-".to_owned()),
    ];
    row.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_tasks_line_up() {
        let status: Status = serde_json::from_value(serde_json::json!({
            "parent": 1, "child": 2, "policy": "tessera",
            "devices": [
                { "uuid": "MIG-1", "group": "gpu0-14-0", "mem_mib": 5632, "leased_mib": 2048, "overhead_mib": 512,
                  "quarantined_mib": 0, "warps": 640, "workers": 1, "held": null },
                { "uuid": "MIG-2", "group": "gpu0-14-1", "mem_mib": 5632, "leased_mib": 0, "overhead_mib": 0,
                  "quarantined_mib": 1024, "warps": 0, "workers": 0, "held": "its MPS daemon is gone" },
            ],
            "jobs": [
                { "job": 12, "uid": 1000, "seats": 2, "tasks": [
                    { "task": 7, "pid": 4711, "device": "MIG-1", "mem_mib": 2048, "warps": 640, "state": "running",
                      "since_s": 3 },
                    { "task": 8, "pid": 4712, "device": null, "mem_mib": 5120, "warps": 64, "state": "waiting",
                      "since_s": 1 },
                ] },
                { "job": 13, "uid": 1001, "seats": 1, "tasks": [] },
            ],
        }))
        .unwrap();
        insta::assert_snapshot!(tables(&status, &|uid| if uid == 1000 { "alice".to_owned() } else { uid.to_string() }), @r"
        DEVICE  MEMORY  LEASED  OVERHEAD  QUARANTINED   FREE  WARPS  PROCESSES
        MIG-1    5632M   2048M      512M           0M  3072M    640          1
        MIG-2    5632M      0M        0M        1024M  4608M      0          0

        JOB  USER   TASK   PID  STATE    SINCE  MEMORY  WARPS  DEVICE
         12  alice     7  4711  running     3s   2048M    640  MIG-1
         12  alice     8  4712  waiting     1s   5120M     64  -
         13  1001      -

        MIG-2 grants nothing: its MPS daemon is gone
        ");
    }
}
