//! A request as a user types it.

use geometry::size::display_gb;
use protocol::Request;

/// The request as the options that a user types, with the isolation that was made of them.
#[must_use]
pub fn in_options(request: &Request) -> String {
    let mut out = Vec::new();
    out.extend(request.isolation_typed.then(|| format!("--gpu-isolation={}", request.isolation)));
    out.extend(request.mem_mib.map(|m| format!("--gpu-mem={}", display_gb(m).replace(' ', ""))));
    let each = if request.per_task { "/task" } else { "" };
    let several = request.instances > 1 || request.per_task;
    out.extend(several.then(|| format!("--gpu-instances={}{each}", request.instances)));
    out.extend(request.threads.map(|t| format!("--gpu-sms={t}")));
    out.extend(
        (!request.times.is_empty()).then(|| format!("--gpu-times={}", request.listed().replace(", ", ","))),
    );
    out.extend(request.gpus.map(|n| format!("--gpus-per-node={n}")));
    out.extend(request.cap_w.map(|w| format!("--gpu-power={w}")));
    out.extend(request.auto_cap.then(|| "--gpu-power=auto".to_owned()));
    if !request.isolation_typed {
        let meaning = format!("--gpu-isolation={}", request.isolation);
        out.push(if out.is_empty() { meaning } else { format!("(taken as {meaning})") });
    }
    out.join(" ")
}
