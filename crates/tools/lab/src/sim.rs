//! The simulated driver of each node.

use std::fs;
use std::process::Command;

use crate::cluster::Cluster;
use crate::command::run;
use crate::config::Templates;
use crate::error::{HarnessError, at};
use crate::layout::Layout;
use crate::user::User;

/// Model that simulates a GPU which Tessera's tables do not have.
const STAND_IN: &str = "l40s-48gb";

/// Makes device nodes for a cluster without Tessera, where gres.conf names them. Nothing opens them; a device cgroup
/// counts them as GPUs.
pub(crate) fn plain_device_nodes(layout: &Layout, templates: &Templates) -> Result<(), HarnessError> {
    for node in templates.node_names() {
        let dev = layout.node(&node).join("dev");
        for index in 0..16 {
            let path = dev.join(format!("nvidia{index}"));
            if !path.exists() {
                run(Command::new("mknod").arg(&path).args(["c", "195", &index.to_string()]))?.ok()?;
            }
        }
    }
    Ok(())
}

/// Creates the simulated node behind each Slurm node. `driver_makes_nodes`: the driver makes device nodes for everybody, as it
/// does unless told otherwise; else Tessera does, for whom it wants.
pub(crate) fn create_nodes(
    cluster: &Cluster,
    templates: &Templates,
    driver_makes_nodes: bool,
) -> Result<(), HarnessError> {
    for node in cluster.nodes() {
        let file = cluster.layout().node(node).join("node.toml");
        at(&file, fs::write(&file, node_description(templates, node, driver_makes_nodes)?))?;
        let mut create = cluster.command(User::Root, "nvml-sim")?;
        create.args(["create", "--node"]).arg(&file);
        create.arg("--state").arg(cluster.layout().sim_state(node));
        create.arg("--root").arg(cluster.layout().node(node));
        run(&mut create)?.ok()?;
    }
    Ok(())
}

/// Describes one node's simulated hardware as tessera.toml does.
fn node_description(
    templates: &Templates,
    node: &str,
    driver_makes_nodes: bool,
) -> Result<String, HarnessError> {
    let table = templates
        .tessera
        .split("[[nodes]]")
        .skip(1)
        .find(|table| value(table, "names") == Some(&format!("\"{node}\"")))
        .ok_or_else(|| {
            HarnessError::Unexpected(format!("tessera.toml has no [[nodes]] with names = \"{node}\""))
        })?;
    let get = |key: &str, default: &'static str| value(table, key).unwrap_or(default).to_owned();
    // A node where MIG may be switched on starts without MIG, like a new card.
    let mig = if get("mig", "\"dynamic\"") == "\"on\"" { "on" } else { "off" };
    let list = get("gpus", "");
    let mixed = list.trim_matches(['[', ']']).split(',').map(|model| (model.trim(), "1".to_owned()));
    let (alike, count) = (get("gpu", "\"\""), get("count", "0"));
    let models: Vec<(&str, String)> = if list.is_empty() { vec![(&alike, count)] } else { mixed.collect() };
    let gpus = models.into_iter().map(|(model, count)| {
        let model = stand_in(&templates.tessera, model);
        format!("[[gpus]]\nmodel = {model}\ncount = {count}\nmig = \"{mig}\"\n")
    });
    Ok(format!(
        "name = \"{node}\"\ninterconnect = {}\ntime_scale = {}\nset_mode_resets = true\n\
         modify_device_files = {driver_makes_nodes}\n{}",
        get("interconnect", "\"nvswitch\""),
        templates.time_scale,
        gpus.collect::<String>(),
    ))
}

/// A model of the file's own `[[models]]` is simulated by a board that calls itself by its first name. Other models are known.
fn stand_in(tessera: &str, model: &str) -> String {
    let own = tessera.split("[[models]]").skip(1).find(|table| value(table, "key") == Some(model));
    let name = own.and_then(|table| value(table, "names")?.trim_start_matches('[').split([',', ']']).next());
    name.map_or_else(|| model.to_owned(), |name| format!("\"{STAND_IN}\"\nname = {name}"))
}

/// The value of a key in one table, as written, without its comment.
pub(crate) fn value<'a>(table: &'a str, key: &str) -> Option<&'a str> {
    let own = table.split("\n[").next().unwrap_or_default();
    own.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.split('#').next().unwrap_or_default().trim())
    })
}
