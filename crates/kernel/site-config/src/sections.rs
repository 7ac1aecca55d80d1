//! Reads `[defaults]`, `[mps]` and `[node]`.

use std::path::{Path, PathBuf};

use geometry::{Model, size};
use gpu_rules::Fill;
use protocol::{Bandwidth, Isolation};
use topology::{Pattern, Selection};

use crate::sets;
use crate::types::{Defaults, LearnFrom, LeftoverProcesses, MemoryLimit, Mps, NodeSettings, VisibleDevices};
use toml_tables::nearest;
use toml_tables::{At, TableReader, pick};

const KINDS: &[(&str, Isolation)] =
    &[("mig", Isolation::Mig(None)), ("mps", Isolation::Mps), ("whole", Isolation::Whole)];

/// The kinds that `auto` may also use, but only where the site lists them.
const LISTED_KINDS: &[(&str, Isolation)] = &[
    ("mig", Isolation::Mig(None)),
    ("mps", Isolation::Mps),
    ("gpu-tasks", Isolation::Tasks { probes: false }),
    ("whole", Isolation::Whole),
];

/// Default of `state_dir`.
pub const STATE_DIR: &str = "/var/lib/tessera";
/// Default of `run_dir`.
pub const RUN_DIR: &str = "/run/tessera";
/// Directory below which Tessera's own files are: `cargo xtask install --prefix` builds with another.
const PREFIX: &str = match option_env!("TESSERA_PREFIX") {
    Some(prefix) => prefix,
    None => "/usr",
};
const CGROUP_ROOT: &str = "/sys/fs/cgroup";

type Read<T> = Result<T, (String, Option<String>)>;

pub(crate) fn defaults(root: &mut TableReader<'_, '_>, models: &[&Model]) -> Defaults {
    let unset = Defaults {
        isolation: Isolation::Auto,
        gpu_mem_mib: None,
        mps_threads: None,
        bandwidth: Bandwidth::Sensitive,
        pattern: Pattern::Ring,
        selection: Selection::default(),
        wait: None,
        node_order: Some(Fill::Pack),
        auto: KINDS.iter().map(|(_, kind)| kind.clone()).collect(),
    };
    let pool = root.has("tasks");
    let Some(table) = root.table("defaults") else { return unset };
    let read = Defaults {
        isolation: table
            .parsed("isolation", |text| isolation(text, models))
            .map_or(unset.isolation, |at| at.value),
        gpu_mem_mib: table.parsed("gpu_mem", |text| memory("gpu_mem", text, models)).map(|at| at.value),
        mps_threads: table.number("mps_threads", 1..101).and_then(|at| u8::try_from(at.value).ok()),
        bandwidth: table.word("bandwidth", &sets::BANDWIDTHS).unwrap_or(unset.bandwidth),
        pattern: table.word("pattern", &Pattern::NAMED).unwrap_or(unset.pattern),
        selection: sets::policy(&table).unwrap_or(unset.selection),
        wait: sets::wait(&table),
        node_order: sets::node_order(&table).unwrap_or(Some(Fill::Pack)),
        auto: kinds(&table, pool).unwrap_or(unset.auto),
    };
    table.finish();
    read
}

/// Reads `auto`: some of `mig`, `mps`, `gpu-tasks`, `whole`, each at most once. `pool`: the site has a pool of GPU tasks.
fn kinds(table: &TableReader<'_, '_>, pool: bool) -> Option<Vec<Isolation>> {
    let mut kinds = Vec::new();
    let words = table.strings("auto")?;
    for At { value, span } in &words {
        // The name before 0.1.
        let value = if value == "tasks" { "gpu-tasks" } else { value.as_str() };
        match pick("auto", value, if pool { LISTED_KINDS } else { KINDS }) {
            Err(_) if value == "gpu-tasks" => {
                let hint = "add [tasks], which may be empty".to_owned();
                table.errors.push(
                    span.clone(),
                    "auto lists gpu-tasks, but the site has no pool of them",
                    Some(hint),
                );
            }
            Ok(kind) if kinds.contains(&kind) => {
                table.errors.push(span.clone(), format!("auto lists {value} twice"), None);
            }
            Ok(kind) => kinds.push(kind),
            Err((what, hint)) => table.errors.push(span.clone(), what, hint),
        }
    }
    if words.is_empty() {
        let hint = "leave it out to allow mig, mps and whole".to_owned();
        table.errors.push(table.key_span("auto"), "auto is empty", Some(hint));
    }
    Some(kinds)
}

/// Reads an isolation. If it names a profile, some node must have that.
pub(crate) fn isolation(text: &str, models: &[&Model]) -> Read<Isolation> {
    let words = ["auto", "mig", "mig:PROFILE", "mig-shared:INSTANCE", "mps", "gpu-tasks", "whole", "slurm"]
        .map(|w| (w, ()));
    let Ok(read) = Isolation::parse(text) else {
        if let Some(renamed) = Isolation::renamed(text) {
            return Err((format!("isolation {text} {renamed}"), None));
        }
        return pick("isolation", text, &words).map(|()| Isolation::Auto).map_err(|(what, hint)| {
            // After `mig:`, the name is wrong, not the word.
            (what, if text.starts_with("mig:") { Some(see_profiles(None)) } else { hint })
        });
    };
    let Isolation::Mig(Some(profile)) = &read else { return Ok(read) };
    if models.iter().any(|m| m.profile(profile).is_some() || m.compute_profile(profile).is_some()) {
        return Ok(read);
    }
    let known = models.iter().flat_map(|m| &m.profiles).map(|p| p.name.as_str());
    let keys = models.iter().map(|m| m.key.as_str()).collect::<Vec<_>>().join(" or ");
    let on = if models.len() > 3 { "any GPU of these nodes".to_owned() } else { keys };
    Err((format!("profile {profile} does not exist on {on}"), Some(see_profiles(nearest(profile, known)))))
}

fn see_profiles(meant: Option<&str>) -> String {
    let meant = meant.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
    format!("{meant}`tessera profiles` lists all")
}

/// Reads a size, MiB. Some GPU must have as much memory.
pub(crate) fn memory(key: &str, text: &str, models: &[&Model]) -> Read<u64> {
    let mib = size::parse_mib(text).map_err(|why| {
        (format!("{key} = {text:?} {why}"), Some("write a size such as \"10G\"".to_owned()))
    })?;
    let largest = models.iter().max_by_key(|m| m.total_memory_mib);
    match largest.filter(|m| m.total_memory_mib < mib) {
        None => Ok(mib),
        Some(m) => {
            let has = format!("{} has {}", m.key, size::display_gb(m.total_memory_mib));
            Err((format!("{key} = {text:?} is more than any GPU here has"), Some(has)))
        }
    }
}

impl Default for Mps {
    fn default() -> Self {
        Self { share_between_users: false, max_threads: 100, memory_limit: MemoryLimit::Mps }
    }
}

pub(crate) fn mps(root: &mut TableReader<'_, '_>) -> Mps {
    let unset = Mps::default();
    let Some(table) = root.table("mps") else { return unset };
    let backends = [("mps", MemoryLimit::Mps), ("advisory", MemoryLimit::Advisory)];
    let read = Mps {
        share_between_users: table.boolean("share_between_users").unwrap_or(unset.share_between_users),
        max_threads: table
            .number("max_threads", 1..1001)
            .and_then(|at| u32::try_from(at.value).ok())
            .unwrap_or(unset.max_threads),
        memory_limit: table.word("memory_limit", &backends).unwrap_or(unset.memory_limit),
    };
    table.finish();
    read
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            dev_root: PathBuf::from("/dev"),
            proc_root: PathBuf::from("/proc"),
            cgroup_root: PathBuf::from(CGROUP_ROOT),
            state_dir: PathBuf::from(STATE_DIR),
            run_dir: PathBuf::from(RUN_DIR),
            nvml_library: PathBuf::from("libnvidia-ml.so.1"),
            mps_control: PathBuf::from("/usr/bin/nvidia-cuda-mps-control"),
            task_broker: Path::new(PREFIX).join("sbin/tessera-broker"),
            task_library: Path::new(PREFIX).join("lib/tessera/libtessera_task.so"),
            gpu_reset_command: ["nvidia-smi", "--gpu-reset", "-i", "%i"].map(str::to_owned).to_vec(),
            gpu_clients_command: Vec::new(),
            operation_timeout_ms: 30_000,
            manage_device_nodes: true,
            visible_devices: VisibleDevices::Numbers,
            plain_notice: true,
            leftover_processes: LeftoverProcesses::End,
        }
    }
}

pub(crate) fn node(root: &mut TableReader<'_, '_>) -> NodeSettings {
    let unset = NodeSettings::default();
    let leftovers = [
        ("end", LeftoverProcesses::End),
        ("wait", LeftoverProcesses::Wait),
        ("fail", LeftoverProcesses::Fail),
    ];
    let Some(table) = root.table("node") else { return unset };
    let path = |key, otherwise| directory(&table, key).unwrap_or(otherwise);
    let file = |t: &str| {
        if t.is_empty() { Err(("nvml_library is empty".to_owned(), None)) } else { Ok(PathBuf::from(t)) }
    };
    let names = [("numbers", VisibleDevices::Numbers), ("uuids", VisibleDevices::Uuids)];
    let read = NodeSettings {
        dev_root: path("dev_root", unset.dev_root),
        proc_root: path("proc_root", unset.proc_root),
        cgroup_root: path("cgroup_root", unset.cgroup_root),
        state_dir: path("state_dir", unset.state_dir),
        run_dir: run_dir(&table).unwrap_or(unset.run_dir),
        nvml_library: table.parsed("nvml_library", file).map_or(unset.nvml_library, |at| at.value),
        mps_control: directory(&table, "mps_control").unwrap_or(unset.mps_control),
        task_broker: path("task_broker", unset.task_broker),
        task_library: path("task_library", unset.task_library),
        gpu_reset_command: reset_command(&table).unwrap_or(unset.gpu_reset_command),
        gpu_clients_command: clients_command(&table).unwrap_or_default(),
        operation_timeout_ms: table
            .number("operation_timeout_ms", 100..600_001)
            .map_or(unset.operation_timeout_ms, |at| at.value),
        manage_device_nodes: table.boolean("manage_device_nodes").unwrap_or(unset.manage_device_nodes),
        visible_devices: table.word("visible_devices", &names).unwrap_or(unset.visible_devices),
        plain_notice: table.boolean("plain_notice").unwrap_or(unset.plain_notice),
        leftover_processes: table.word("leftover_processes", &leftovers).unwrap_or(unset.leftover_processes),
    };
    table.finish();
    read
}

pub(crate) fn planner(root: &mut TableReader<'_, '_>) -> LearnFrom {
    let unset = LearnFrom::User;
    let Some(table) = root.table("planner") else { return unset };
    let whose = [("user", LearnFrom::User), ("account", LearnFrom::Account)];
    let read = table.word("learn_from", &whose).unwrap_or(unset);
    table.finish();
    read
}

/// Reads `[submission]`.
pub(crate) fn submission(root: &mut TableReader<'_, '_>) -> bool {
    let Some(table) = root.table("submission") else { return true };
    let read = table.boolean("tell_slurm_limits").unwrap_or(true);
    table.finish();
    read
}

pub(crate) fn directory(table: &TableReader<'_, '_>, key: &'static str) -> Option<PathBuf> {
    let absolute = |text: &str| {
        if text.starts_with('/') {
            Ok(PathBuf::from(text))
        } else {
            let what = format!("{key} = {text:?} is not an absolute path");
            Err((what, Some("begin it with /; %n stands for the node's name".to_owned())))
        }
    };
    table.parsed(key, absolute).map(|at| at.value)
}

/// Longest `run_dir`, bytes. It contains sockets, `mps/gpu63-999-7/pipe/control`, and the kernel takes socket paths of up
/// to 107 bytes.
const MOST_RUN_DIR: usize = 107 - "/mps/gpu63-999-7/pipe/control".len();

fn run_dir(table: &TableReader<'_, '_>) -> Option<PathBuf> {
    let path = directory(table, "run_dir")?;
    let length = path.as_os_str().len();
    if length > MOST_RUN_DIR {
        let what = format!("run_dir has {length} characters: the paths of MPS's sockets would be too long");
        let hint = Some(format!("use at most {MOST_RUN_DIR}, including the node's name for %n"));
        table.errors.push(table.key_span("run_dir"), what, hint);
    }
    Some(path)
}

fn reset_command(table: &TableReader<'_, '_>) -> Option<Vec<String>> {
    let words: Vec<String> = table.strings("gpu_reset_command")?.into_iter().map(|at| at.value).collect();
    if !words.iter().any(|w| w.contains("%i")) {
        let what = "gpu_reset_command does not say which GPU";
        let hint = "write %i in place of the GPU's index".to_owned();
        table.errors.push(table.key_span("gpu_reset_command"), what, Some(hint));
    }
    Some(words)
}

fn clients_command(table: &TableReader<'_, '_>) -> Option<Vec<String>> {
    const KEY: &str = "gpu_clients_command";
    let words: Vec<String> = table.strings(KEY)?.into_iter().map(|at| at.value).collect();
    let wrong = if !words.first().is_some_and(|program| program.starts_with('/')) {
        Some(("does not begin with an absolute path", "root runs it: write the program's whole path"))
    } else if !words.iter().any(|word| word.contains("%a")) {
        Some(("does not say whether to stop or to start", "write %a in place of stop or start"))
    } else {
        None
    };
    if let Some((what, hint)) = wrong {
        table.errors.push(table.key_span(KEY), format!("{KEY} {what}"), Some(hint.to_owned()));
    }
    Some(words)
}
