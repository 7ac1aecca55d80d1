//! `tessera score`, `lint`, `topology` and `fit`, as scripts read them.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::process::Command;

fn run(args: &[&str]) -> (String, Option<i32>) {
    let out = Command::new(env!("CARGO_BIN_EXE_tessera")).args(args).env_clear().output().unwrap();
    (String::from_utf8(out.stdout).unwrap(), out.status.code())
}

fn json(args: &str) -> (serde_json::Value, Option<i32>) {
    let (text, status) = run(&args.split(' ').collect::<Vec<_>>());
    (serde_json::from_str(&text).unwrap(), status)
}

#[test]
fn a_score_has_these_keys() {
    let (found, status) = json("score --topology dgx-v --gpus 4 --model mapa2021 --json");
    assert_eq!(status, Some(0));
    assert_eq!(found["gpus"], serde_json::json!([0, 1, 2, 3]));
    assert_eq!(found["order"].as_array().unwrap().len(), 4);
    let numbers = ["x", "y", "z", "tied_sets"].map(|k| found[k].as_u64().unwrap());
    assert_eq!(numbers, [3, 1, 0, 4]);
    assert_eq!((found["agg_bw"].as_f64(), found["preserved_bw"].as_f64()), (Some(175.0), Some(225.0)));
    assert!((found["eff_bw"].as_f64().unwrap() - 68.706921098).abs() < 1e-6);
    assert_eq!((found["model"].as_str(), found["policy"].as_str()), (Some("mapa2021"), Some("preserve")));
    assert!(found["elapsed_us"].is_number() && found["chosen"] == true);
}

#[test]
fn what_does_not_fit_is_not_chosen() {
    let (found, status) = json("score --topology dgx-v --gpus 5 --busy 0-3 --json");
    assert_eq!((found["chosen"].as_bool(), status), (Some(false), Some(1)));
    assert_eq!(found["reason"], "4 GPUs free, 5 asked for");
    // A GPU that the node does not have is a mistake of the user, not a set that does not fit.
    for command in ["score --gpus 2 --topology dgx-v --busy 8", "topology svg dgx-v --gpus 2 --busy 3-9"] {
        assert_eq!(run(&command.split(' ').collect::<Vec<_>>()), (String::new(), Some(1)), "{command}");
    }
}

#[test]
fn every_class_counts_every_set_once() {
    let (found, _) = json("score --topology dgx-v --gpus 4 --all --json");
    let sets = found["classes"].as_array().unwrap().iter().map(|c| c["sets"].as_u64().unwrap());
    assert_eq!(sets.sum::<u64>(), 70);
}

#[test]
fn files_of_links_edges_and_measurements() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let links = write("links.toml", "matrix = [[0, 50, 10], [50, 0, 25], [10, 25, 0]]\n");
    let edges = write("edges", "0 1\n1 2 0.5\n");
    let pattern = format!("file:{edges}");
    let (text, status) = run(&["score", "--topology", &links, "--gpus", "3", "--pattern", &pattern]);
    assert_eq!(status, Some(0));
    assert!(text.contains("1 double, 1 single, 0 without NVLink"), "{text}");

    let good = write("good.csv", "0 3,49\n0 1,24\n0 1 2 3,70\n0 2 3,57\n0 1 2,44\n0 5,9.5\n0 3 4,30\n");
    let (model, status) = run(&["fit", "bandwidth", &good, "--topology", "dgx-v"]);
    assert_eq!(status, Some(0), "{model}");
    let model = write("model", &model);
    let (text, status) = run(&["score", "--topology", "dgx-v", "--gpus", "2", "--model", &model]);
    assert_eq!(status, Some(0), "{text}");
    // What the default model predicts cannot be predicted better.
    let same = write("same.csv", "0 3,50\n0 1,25\n0 2 3,43\n0 1 2 3,52\n0 5,10\n");
    let (text, status) = run(&["fit", "bandwidth", &same, "--topology", "dgx-v"]);
    assert!(status == Some(1) && text.contains("refused"), "{text}");
}

#[test]
fn slurms_own_choice_falls_behind() {
    let (lines, _) = json("lint --topology dgx-v --json");
    let four = lines.as_array().unwrap().iter().find(|l| l["n"] == 4).unwrap();
    assert_eq!(four["slurm_from_24_05"]["gpus"], serde_json::json!([0, 2, 5, 7]));
    assert_eq!(four["slurm_to_23_11"]["gpus"], serde_json::json!([0, 1, 3, 4]));
    assert!(four["slurm_from_24_05"]["behind_gbps"].as_f64().unwrap() > 30.0);
}

/// Without --topology the links are those of tessera.toml; nodes that are linked alike are shown once.
#[test]
fn the_sites_own_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let node = |name: &str, count: usize, links: &str| {
        format!(
            "[[nodes]]\nnames = \"{name}\"\ngpu = \"a100-40gb\"\ncount = {count}\ninterconnect = \"{links}\"\n"
        )
    };
    let file = dir.path().join("tessera.toml");
    let on = |nodes: &str, args: &[&str]| {
        fs::write(&file, nodes).unwrap();
        run(&[&["--config", file.to_str().unwrap()], args].concat())
    };
    let alike = [node("n[1-3]", 8, "dgx-v"), node("n4", 8, "dgx-v"), node("n5", 1, "pcie")].concat();
    let mixed = format!("{alike}{}", node("n6", 4, "hgx-a100-4"));
    let (text, status) = on(&mixed, &["lint"]);
    assert_eq!(status, Some(0));
    let titles: Vec<&str> = text.lines().filter(|l| l.contains(" x a100-40gb, ")).collect();
    let expect = [
        "n1 to n3 (3 nodes): 8 x a100-40gb, links dgx-v",
        "n4: 8 x a100-40gb, links dgx-v",
        "n6: 4 x a100-40gb, links hgx-a100-4",
    ];
    assert_eq!(titles, expect, "{text}");
    assert_eq!(text.matches("SLURM TO 23.11").count(), 2, "{text}");
    let (found, _) = on(&mixed, &["lint", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found[1]["lines"].as_array().unwrap().len(), 3, "{found}");
    let (named, _) = run(&["lint", "--topology", "dgx-v"]);
    assert_eq!(on(&mixed, &["lint", "--topology", "n4"]), (named, Some(0)));
    assert_eq!(on(&alike, &["score", "--gpus", "3"]).1, Some(0));
    assert_eq!(on(&mixed, &["score", "--gpus", "3"]), (String::new(), Some(1)), "which links is not said");
    assert_eq!(on(&mixed, &["topology", "show", "n7"]), (String::new(), Some(1)));
    assert_eq!(on(&mixed, &["topology", "show", "n2"]), run(&["topology", "show", "dgx-v"]));
}

#[test]
fn the_graph_is_drawn_with_the_set() {
    let (svg, status) = run(&["topology", "svg", "dgx-v", "--gpus", "4"]);
    assert_eq!(status, Some(0));
    assert_eq!(svg.matches("class=\"chosen\"").count(), 4);
    assert_eq!(svg.matches(" used\"").count(), 4);
    assert!(svg.contains(">dgx-v: ring on 0 1 2 3, 52.0 GB/s</text>"), "{svg}");
    let (table, _) = run(&["topology", "show", "dgx-v", "--gpus", "4"]);
    assert_eq!(table.matches("chosen\n").count(), 4);
}
