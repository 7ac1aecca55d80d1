//! Where the fields that are used lie, compared with a copy kept for each tested Slurm.
//!
//! Slurm's internal structs move between micro releases. A build for another Slurm may well have other offsets and be
//! right; for the very release that `golden/` names, a difference means that the headers are not what they claim.
//! `UPDATE_GOLDEN=1 cargo test -p select-plugin` writes the file anew.
//!
//! Beside it, the symbols that Slurm looks up are compared with those that the plugin has.
//!
//! The tests of the plugins are built for the machine's own Slurm. For those in chroots `tests/built_for.rs` has this module
//! once more.

use std::fmt::Write as _;
use std::mem::offset_of;

use super::sys::{
    gres_job_state_t, gres_node_state_t, gres_state_t, job_record_t, job_resources_t, node_record_t,
    part_record_t, slurm_conf_t,
};

use super::version::JobDetails;

macro_rules! table {
    ($($type:ty { $($field:ident),* $(,)? })*) => {{
        let mut out = String::new();
        $(
            let _ = writeln!(out, "{} size {}", stringify!($type), size_of::<$type>());
            $(let _ = writeln!(out, "  {} {}", stringify!($field), offset_of!($type, $field));)*
        )*
        out
    }};
}

fn offsets() -> String {
    let mut all = table! {
        job_record_t {
            admin_comment, magic, bit_flags, details, end_time, gres_list_alloc, gres_list_req, job_id, job_resrcs, job_state,
            part_ptr, spank_job_env, spank_job_env_size, start_time, tres_per_node, user_id,
        }
        JobDetails { magic, max_nodes, min_cpus, min_nodes, num_tasks, req_node_bitmap, whole_node }
        job_resources_t { core_bitmap, memory_allocated, node_bitmap }
        node_record_t { boot_time, config_ptr, cpus, extra, gres_list, magic, mem_spec_limit, name, real_memory, sched_weight, tot_cores }
        gres_state_t { gres_data, gres_name }
        gres_job_state_t {
            gres_per_job, gres_per_node, gres_per_socket, gres_bit_select, gres_cnt_node_select, gres_bit_alloc,
            gres_cnt_node_alloc, node_cnt, total_gres, type_id,
        }
        gres_node_state_t {
            gres_bit_alloc, gres_cnt_config, topo_cnt, topo_core_bitmap, topo_gres_bitmap, topo_gres_cnt_alloc, topo_gres_cnt_avail,
            topo_type_id,
        }
        part_record_t { flags, magic, node_bitmap }
        slurm_conf_t { plugindir, select_type_param, slurm_conf }
    };
    all.push_str(&of_steps());
    all.push_str(&of_licenses());
    all
}

/// Since 25.05 a select plugin is not told of steps.
#[cfg(slurm_since = "25.05")]
fn of_steps() -> String {
    String::new()
}

#[cfg(not(slurm_since = "25.05"))]
fn of_steps() -> String {
    use super::sys::{gres_step_state_t, step_record_t};
    table! {
        gres_step_state_t { gres_bit_alloc, node_cnt, type_id }
        step_record_t { gres_list_alloc, job_ptr }
    }
}

/// Since 25.05 slices are not counted.
#[cfg(slurm_since = "25.05")]
fn of_licenses() -> String {
    String::new()
}

#[cfg(not(slurm_since = "25.05"))]
fn of_licenses() -> String {
    table! {
        job_record_t { license_list, licenses, tres_req_cnt }
        slurm_conf_t { licenses }
    }
}

#[test]
fn offsets_are_those_of_the_tested_release() {
    let version = super::sys::SLURM_VERSION_NUMBER;
    let name = format!("{:02}.{:02}.{}", version >> 16 & 0xff, version >> 8 & 0xff, version & 0xff);
    let path = format!("{}/golden/layout-{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let found = offsets();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    match std::fs::read_to_string(&path) {
        Ok(expected) => assert_eq!(found, expected, "against {path}"),
        // A release nobody has tested: its own headers are all there is to go by.
        Err(_) => println_skip(&name),
    }
}

/// Slurm ends slurmctld if a plugin lacks one of them.
#[test]
fn every_symbol_that_slurm_asks_for_is_there() {
    let asked: &[&str] = &include!(concat!(env!("OUT_DIR"), "/asked.rs"));
    let ours: Vec<&str> = super::entry::names().chain(["plugin_id"]).collect();
    let missing: Vec<&&str> = asked.iter().filter(|symbol| !ours.contains(symbol)).collect();
    assert!(missing.is_empty() && asked.contains(&"select_p_job_test"), "missing: {missing:?}");
    // And nothing is forwarded that this Slurm does not know: its plugin would lack it.
    let mut unknown: Vec<&str> = ours.into_iter().filter(|ours| !asked.contains(ours)).collect();
    unknown.sort_unstable();
    assert_eq!(unknown, ["fini", "init"]);
}

#[expect(clippy::print_stdout, reason = "a test says what it skipped")]
fn println_skip(name: &str) {
    println!("no layout is kept for Slurm {name}");
}
