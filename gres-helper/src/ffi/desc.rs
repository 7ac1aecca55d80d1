//! Job descriptions and records as plain values, and effects written into a description.

use std::ffi::{c_char, c_void};

use admission::gres_list::{gpu_bind, names_none};
use plugin_rt::text;
use protocol::wire::{CHANGE_ENV, REQUEST_ENV, request_in_gres};
use site_limits::tres::Tres;
use slurm_numbers as numbers;
use slurmctld_rt::spank_env::{MAX_BYTES, MAX_ENTRIES, MAX_RECORDED_ENTRIES, check_names, is_named};
use slurmctld_rt::{entries, qos_name, variable};

use super::host::Host;
use super::records::{Desc, Details, Job};
use super::version;
use crate::answer::{Effect, OnRecord};
use crate::harm::{Fields, Harm};
use crate::long_texts::{MAX_LONG_TEXT, MAX_TEXT, too_long};
use crate::submission::{Described, Recorded};

/// A string of Slurm's that is there and not empty.
///
/// # Safety
///
/// Null or NUL-terminated, as all strings of job descriptions and records are.
unsafe fn filled(field: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    unsafe { text(field) }.filter(|t| !t.is_empty())
}

/// Names a text of a description that is too long to be read.
fn long_text(desc: Desc) -> Option<Harm> {
    let texts = [
        ("tres_per_job", desc.tres_per_job(), MAX_TEXT),
        ("tres_per_node", desc.tres_per_node(), MAX_TEXT),
        ("tres_per_socket", desc.tres_per_socket(), MAX_TEXT),
        ("tres_per_task", desc.tres_per_task(), MAX_TEXT),
        ("tres_bind", desc.tres_bind(), MAX_TEXT),
        ("partition", desc.partition(), MAX_TEXT),
        ("account", desc.account(), MAX_TEXT),
        ("qos", desc.qos(), MAX_TEXT),
        ("name", desc.name(), MAX_TEXT),
        ("licenses", desc.licenses(), MAX_TEXT),
        ("nodelist", desc.req_nodes(), MAX_LONG_TEXT),
        ("admin_comment", desc.admin_comment(), MAX_LONG_TEXT),
    ];
    // SAFETY: slurm.h: strings of a job description are null or NUL-terminated.
    too_long(texts, |text, most| !text.is_null() && unsafe { libc::strnlen(text, most + 1) } > most)
}

/// A job description as plain values; only its harm, if a text is too long to be read.
pub(super) fn described(desc: Desc) -> Described {
    if let Some(harm) = long_text(desc) {
        return Described { harm: Some(harm), ..Described::default() };
    }
    // SAFETY: slurm.h: strings of a job description are null or NUL-terminated.
    let string = |field: *mut c_char| unsafe { filled(field) };
    // SAFETY: as above.
    let is_filled = |field: *mut c_char| !field.is_null() && unsafe { field.read() } != 0;
    // SAFETY: slurm.h: `spank_job_env` has `spank_job_env_size` elements.
    let env = unsafe { entries(desc.spank_job_env(), desc.spank_job_env_size(), MAX_ENTRIES) };
    let per_node = string(desc.tres_per_node());
    let new_request =
        per_node.as_deref().and_then(request_in_gres).map(|read| read.map_err(|why| why.to_string()));
    let tres = Tres {
        per_job: string(desc.tres_per_job()),
        per_node: per_node.filter(|_| new_request.is_none()),
        per_socket: string(desc.tres_per_socket()),
        per_task: string(desc.tres_per_task()),
        tasks_per_gpu: tasks_per_gpu(desc.ntasks_per_tres()),
    };
    let fields = Fields {
        variables: desc.env_size(),
        extra: is_filled(desc.extra()),
        array_with_x11: is_filled(desc.array_inx()) && is_filled(desc.x11_target()),
        tasks_per_socket: desc.ntasks_per_socket(),
        spread: desc.bitflags() & numbers::SPREAD_JOB != 0,
    };
    Described {
        // SAFETY: as above.
        request: unsafe { variable(desc.spank_job_env(), desc.spank_job_env_size(), REQUEST_ENV) },
        bad_env: env.and_then(|env| check_names(&env)).err(),
        harm: Harm::find(&fields, &tres, version::faults()),
        new_request,
        tres,
        empties_gres: [
            desc.tres_per_job(),
            desc.tres_per_node(),
            desc.tres_per_socket(),
            desc.tres_per_task(),
        ]
        .into_iter()
        // SAFETY: slurm.h: null or NUL-terminated.
        .filter_map(|list| unsafe { text(list) })
        .any(|list| names_none(&list)),
        // SAFETY: slurm.h: null or NUL-terminated.
        partition: unsafe { text(desc.partition()) },
        required_nodes: string(desc.req_nodes()),
        gpu_bind: string(desc.tres_bind()).and_then(|list| gpu_bind(&list)),
        tasks_per_node: tasks_per_node(desc),
        account: string(desc.account()),
        user: desc.user_id(),
        name: string(desc.name()),
        learnt: None,
        qos: string(desc.qos()),
        minutes: set(desc.time_limit()),
        nodes: set(desc.min_nodes()),
        most_nodes: set(desc.max_nodes()).filter(|n| *n != 0),
        component: set(desc.het_job_offset()),
        exclusive: desc.shared() == numbers::JOB_SHARED_NONE,
        // SAFETY: slurm.h: null or NUL-terminated.
        comment: unsafe { text(desc.admin_comment()) },
        // SAFETY: slurm.h: null or NUL-terminated.
        licenses: unsafe { text(desc.licenses()) },
    }
}

/// `--ntasks-per-gpu`, where it is given.
fn tasks_per_gpu(per_tres: u16) -> Option<u16> {
    Some(per_tres).filter(|n| *n != 0 && *n != numbers::NO_VAL16)
}

/// A number that somebody has said.
fn set(number: u32) -> Option<u32> {
    Some(number).filter(|number| *number != numbers::NO_VAL)
}

/// Slurm tasks per node: as the user counts them, else the job's over the fewest nodes that it asks for.
fn tasks_per_node(desc: Desc) -> Option<u32> {
    let per_node = desc.ntasks_per_node();
    if per_node != 0 && per_node != numbers::NO_VAL16 {
        return Some(u32::from(per_node));
    }
    spread(desc.num_tasks(), desc.min_nodes())
}

/// So many tasks over so many nodes; `None` without a number of tasks.
fn spread(tasks: u32, nodes: u32) -> Option<u32> {
    let given = |n: u32| n != 0 && n != numbers::NO_VAL && n != numbers::INFINITE;
    given(tasks).then(|| tasks.div_ceil(if given(nodes) { nodes } else { 1 }))
}

/// Reads slurmctld's record of a job; `counts_env`: with the size of its SPANK environment.
pub(super) fn recorded(host: &Host, job: Job, counts_env: bool) -> Recorded {
    let string = |field: Option<String>| field.filter(|text| !text.is_empty());
    let details = job.details();
    // SAFETY: slurmctld.h: `spank_job_env` has `spank_job_env_size` elements.
    let named = |name| unsafe { variable(job.spank_job_env(), job.spank_job_env_size(), name) };
    Recorded {
        request: named(REQUEST_ENV),
        change: named(CHANGE_ENV),
        env_bytes: if counts_env { env_bytes(job) } else { 0 },
        tasks_per_node: details.and_then(|d| spread(d.num_tasks(), d.min_nodes())),
        partition: string(job.partition()),
        required_nodes: details.and_then(|d| string(d.req_nodes())),
        account: string(job.account()),
        user: job.user_id(),
        // SAFETY: hooks run under slurmctld's job lock.
        qos: unsafe { qos_name(job.qos_ptr()) },
        minutes: set(job.time_limit()),
        nodes: details.map_or(1, Details::min_nodes),
        tres: Tres {
            per_job: string(job.tres_per_job()),
            per_node: string(job.tres_per_node()),
            per_socket: string(job.tres_per_socket()),
            per_task: string(job.tres_per_task()),
            tasks_per_gpu: details.and_then(|d| tasks_per_gpu(d.ntasks_per_tres())),
        },
        exclusive: details.is_some_and(|d| version::exclusive(d.whole_node())),
        spread: version::faults().spreads_no_gres && job.bit_flags() & numbers::SPREAD_JOB != 0,
        comment: string(job.admin_comment()).unwrap_or_default(),
        licenses: string(job.licenses_allocated().flatten()).or_else(|| job.licenses()).unwrap_or_default(),
        pending: job.job_state() & numbers::JOB_STATE_BASE == numbers::JOB_PENDING,
        // SAFETY: slurmctld.h: null or a live list of a live job, under the job lock.
        kinds_of_gres: unsafe { host.lists.elements::<c_void>(job.gres_list_alloc()) }.len(),
    }
}

/// Bytes of a job's SPANK environment; the most that one may have if it is larger.
fn env_bytes(job: Job) -> usize {
    // SAFETY: slurmctld.h: `spank_job_env` has `spank_job_env_size` elements.
    let env = unsafe { entries(job.spank_job_env(), job.spank_job_env_size(), MAX_RECORDED_ENTRIES) };
    env.map_or(MAX_BYTES, |env| env.iter().map(String::len).sum())
}

/// Writes changes to a job's record, which the job lock keeps for this hook.
pub(super) fn write(host: &Host, job: Job, changes: &[OnRecord]) {
    for change in changes {
        match change {
            OnRecord::Variable(name, value) => {
                let line = value.as_ref().map(|value| format!("{name}={value}"));
                let (env, size) = (job.spank_job_env_at(), job.spank_job_env_size_at());
                // SAFETY: slurmctld.h: `spank_job_env` has `spank_job_env_size` elements, and Slurm frees them.
                unsafe { host.heap.rewrite(env, size, &|entry| is_named(entry, name), line.as_deref()) };
            }
            OnRecord::Comment(comment) => {
                // SAFETY: slurmctld.h: null or a string that Slurm allocated.
                unsafe { host.heap.replace(job.admin_comment_at(), comment) };
            }
        }
    }
}

/// Writes effects into a description, in their order.
pub(super) fn apply(host: &Host, desc: Desc, effects: &[Effect]) {
    for effect in effects {
        let (field, value) = match effect {
            Effect::Env(request) => {
                rewrite_env(host, desc, request.as_deref());
                continue;
            }
            Effect::KeepLicenses => {
                keep_licenses(desc);
                continue;
            }
            Effect::SamePerNode => {
                // SAFETY: slurm.h: null or a string that Slurm allocated.
                unsafe { host.heap.clear(desc.tres_per_node_at()) };
                continue;
            }
            Effect::Comment(comment) => (desc.admin_comment_at(), comment),
            Effect::PerNode(list) => (desc.tres_per_node_at(), list),
        };
        // SAFETY: slurm.h: null or a string that Slurm allocated.
        unsafe { host.heap.replace(field, value) };
    }
}

/// From 24.11 on slurmctld sets these flags in a change after this plugin has seen it, and takes the licenses of a running job
/// away by them, also where a client has set them (`_set_tot_license_req`, src/slurmctld/job_mgr.c). No command does.
fn keep_licenses(desc: Desc) {
    // SAFETY: a field of a live description that the plugin may change.
    unsafe { desc.bitflags_at().write(desc.bitflags() & !version::reset_licenses(version::slurm())) };
}

fn rewrite_env(host: &Host, desc: Desc, request: Option<&str>) {
    let goes = |entry: &str| Effect::drops(entry, request);
    let line = request.map(|request| format!("{REQUEST_ENV}={request}"));
    let (env, size) = (desc.spank_job_env_at(), desc.spank_job_env_size_at());
    // SAFETY: slurm.h: `spank_job_env` has `spank_job_env_size` elements, and Slurm frees them.
    unsafe { host.heap.rewrite(env, size, &goes, line.as_deref()) };
}
