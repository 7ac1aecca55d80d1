//! What an admin reads for each thing that can be wrong in a `tessera.toml`.
#![allow(clippy::unwrap_used, reason = "tests")]

mod budgets;
mod hostile;
mod nodes;
mod sections;

use std::io;

use insta::assert_snapshot;

fn file(name: &str) -> io::Result<String> {
    match name {
        "good.toml" => Ok("[[nodes]]\nmatrix = [[0, 25], [25, 0]]\n".to_owned()),
        "bad.toml" => Ok("[[nodes]]\nmatrix = [[0, 25], [50, 0]]\n".to_owned()),
        "named.toml" => Ok("[[nodes]]\ninterconnect = \"pcie\"\n".to_owned()),
        "dgx.toml" => Ok("[[nodes]]\ninterconnect = \"dgx-v\"\n".to_owned()),
        "empty.toml" => Ok(String::new()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Every error as a terminal shows it.
fn errors(text: &str) -> String {
    let (config, errors) = site_config::parse("tessera.toml", text, &file);
    assert_eq!(config.is_some(), errors.is_empty());
    errors.iter().map(|e| site_problems::shown(e) + "\n").collect()
}

/// The errors of a text beside one good node set.
fn beside(text: &str) -> String {
    errors(&format!("{text}\n[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 8\n"))
}

/// The errors of a node set's own lines.
fn of_nodes(lines: &str) -> String {
    errors(&format!("[[nodes]]\n{lines}\n"))
}

#[test]
fn slurm_gets_one_line_per_error() {
    let text = "[defalts]\n[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40\"\ncount = 8\n";
    let (_, errors) = site_config::parse("/etc/slurm/tessera.toml", text, &file);
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_snapshot!(lines.join("\n"), @r#"
    /etc/slurm/tessera.toml:1:2: unknown key defalts (did you mean defaults?)
    /etc/slurm/tessera.toml:4:8: unknown GPU model "a100-40" (did you mean a100-40gb? `tessera profiles` lists all models)
    "#);
}

#[test]
fn all_errors_at_once() {
    let text = r#"
[defaults]
isolation = "mig:2g.11gb"
gpu_mem = "5X"
[mps]
share_between_users = "no"
max_treads = 100
[[nodes]]
names = "n[1-2]"
gpu = "a100-40gb"
count = 4
interconnect = "dgx-v"
[[nodes]]
names = "n[2-3]"
gpu = "h100-80gb-sxm"
count = 4
mig = "yes"
"#;
    assert_snapshot!(errors(text), @r#"
    tessera.toml:3:14: profile 2g.11gb does not exist on a100-40gb or h100-80gb-sxm
    isolation = "mig:2g.11gb"
                 ^~~~~~~~~~~  hint: did you mean 2g.10gb? `tessera profiles` lists all
    tessera.toml:4:12: gpu_mem = "5X" has an unknown suffix: use K, M, G, T or Ki, Mi, Gi, Ti
    gpu_mem = "5X"
               ^~  hint: write a size such as "10G"
    tessera.toml:6:24: share_between_users is a string, not true or false
    share_between_users = "no"
                           ^~
    tessera.toml:7:1: unknown key max_treads in [mps]
    max_treads = 100
    ^~~~~~~~~~  hint: did you mean max_threads?
    tessera.toml:12:17: interconnect dgx-v links 8 GPUs, not 4
    interconnect = "dgx-v"
                    ^~~~~  hint: for another number of GPUs, give a matrix or discovered = FILE
    tessera.toml:14:10: node n2 is already in names = "n[1-2]"
    names = "n[2-3]"
             ^~~~~~
    tessera.toml:17:8: mig cannot be "yes"
    mig = "yes"
           ^~~  hint: use one of on, off, dynamic
    "#);
}

#[test]
fn a_syntax_error_names_line_and_column() {
    assert_snapshot!(errors("[defaults\ngpu_mem = 5G\n[[nodes]]\nnames = \"n1\n"), @r#"
    tessera.toml:1:10: unclosed table, expected `]`
    [defaults
             ^
    tessera.toml:4:12: invalid basic string, expected `"`
    names = "n1
               ^
    "#);
    assert_snapshot!(beside("[mps]\nmax_threads = 1\nmax_threads = 2"), @r"
    tessera.toml:3:1: duplicate key
    max_threads = 2
    ^~~~~~~~~~~
    ");
}

#[test]
fn a_file_without_nodes_says_so() {
    assert_snapshot!(errors(""), @r"
    tessera.toml:1:1: the file describes no nodes

    ^  hint: add [[nodes]] with names, gpu and count; `tessera discover` writes one
    ");
    assert_snapshot!(errors("[nodes]\nnames = \"n1\""), @r"
    tessera.toml:1:1: [nodes] must be an array of tables
    [nodes]
    ^~~~~~~  hint: write [[nodes]]
    ");
    assert_snapshot!(of_nodes("mig = \"on\""), @r#"
    tessera.toml:1:1: [[nodes]] has no names
    [[nodes]]
    ^~~~~~~~~  hint: add names = "n[1-2]", a Slurm hostlist
    tessera.toml:1:1: [[nodes]] has no gpu
    [[nodes]]
    ^~~~~~~~~  hint: add gpu = "a100-40gb" and count = 8
    "#);
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    assert_snapshot!(beside("[limit]\npartition = \"debug\""), @r"
    tessera.toml:1:2: unknown key limit
    [limit]
     ^~~~~  hint: did you mean limits?
    ");
    assert_snapshot!(beside("[defaults]\ngpu_memory = \"5G\""), @r#"
    tessera.toml:2:1: unknown key gpu_memory in [defaults]
    gpu_memory = "5G"
    ^~~~~~~~~~  hint: did you mean gpu_mem?
    "#);
    assert_snapshot!(beside("[node]\ncolour = \"red\""), @r#"
    tessera.toml:2:1: unknown key colour in [node]
    colour = "red"
    ^~~~~~  hint: use one of dev_root, proc_root, cgroup_root, state_dir, run_dir, nvml_library, mps_control, task_broker, task_library, gpu_reset_command, gpu_clients_command, operation_timeout_ms, manage_device_nodes, visible_devices, plain_notice, leftover_processes
    "#);
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_its_line() {
    assert_snapshot!(beside("[defaults]\ngpu_mem = 5000\nmps_threads = \"25%\"\nauto = \"mig\""), @r#"
    tessera.toml:2:11: gpu_mem is a number, not a string
    gpu_mem = 5000
              ^~~~  hint: put it in quotes
    tessera.toml:3:16: mps_threads is a string, not a whole number
    mps_threads = "25%"
                   ^~~
    tessera.toml:4:9: auto is a string, not an array of strings
    auto = "mig"
            ^~~
    "#);
    assert_snapshot!(beside("mps = 3"), @r"
    tessera.toml:1:7: mps is a number, not a table
    mps = 3
          ^
    ");
    assert_snapshot!(of_nodes("names = [\"n1\"]\ngpu = \"a100-40gb\"\ncount = 8.0"), @r#"
    tessera.toml:2:9: names is an array, not a string
    names = ["n1"]
            ^~~~~~
    tessera.toml:4:9: count is a number with a point, not a whole number
    count = 8.0
            ^~~
    "#);
}

#[test]
fn columns_count_characters_and_tabs_stay() {
    assert_snapshot!(beside("[defaults]\n\tpattern = \"größer\" # ü\n"), @r#"
    tessera.toml:2:13: pattern cannot be "größer"
    	pattern = "größer" # ü
    	           ^~~~~~  hint: use one of ring, tree, chain, star, all, none, ring+tree
    "#);
}
