//! `tessera power`.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::Site;

/// Applications with F1 to F8.
const APPS: [(&str, [f64; 8]); 9] = [
    ("hgemm", [88.0, 30.0, 20.0, 70.0, 20.0, 60.0, 0.0, 0.0]),
    ("igemm4", [80.0, 25.0, 15.0, 75.0, 25.0, 0.0, 0.0, 50.0]),
    ("tdgemm", [85.0, 28.0, 10.0, 80.0, 18.0, 0.0, 55.0, 0.0]),
    ("sgemm", [90.0, 40.0, 12.0, 85.0, 30.0, 0.0, 0.0, 0.0]),
    ("lavaMD", [70.0, 20.0, 5.0, 90.0, 50.0, 0.0, 0.0, 0.0]),
    ("stream", [20.0, 92.0, 90.0, 30.0, 80.0, 0.0, 0.0, 0.0]),
    ("lud", [40.0, 60.0, 40.0, 50.0, 40.0, 0.0, 0.0, 0.0]),
    ("bfs", [30.0, 35.0, 30.0, 60.0, 60.0, 0.0, 0.0, 0.0]),
    ("kmeans", [25.0, 20.0, 15.0, 65.0, 35.0, 0.0, 0.0, 0.0]),
];

/// Performance of an application by a formula: fewer slices, less power and a hungry neighbour cost.
fn rperf(f: &[f64; 8], slices: f64, is_private: bool, watts: f64, beside: Option<&[f64; 8]>) -> f64 {
    let compute = f[0] / 100.0 * (slices / 7.0) * (0.6 + 0.4 * watts / 250.0);
    let memory = f[2] / 100.0 * if is_private { 0.5 } else { 0.9 };
    let neighbour = beside.map_or(0.0, |b| b[2] / 100.0 * if is_private { 0.02 } else { 0.2 });
    0.35 + 0.4 * compute + 0.2 * memory + 0.1 * f[4] / 100.0 - neighbour
}

fn site() -> Site {
    let site = Site::new();
    let mut counters = "app,gpu,source,f1,f2,f3,f4,f5,f6,f7,f8\n".to_owned();
    for (app, f) in &APPS {
        let f = f.map(|f| f.to_string()).join(",");
        writeln!(counters, "{app},a100-40gb,ncu,{f}").unwrap();
    }
    let mut runs = "state,cap_w,apps,rperf\n".to_owned();
    for (watts, (kind, is_private)) in
        [150.0, 250.0].into_iter().flat_map(|w| [("c", false), ("g", true)].map(|kind| (w, kind)))
    {
        for (slices, (app, f)) in [4.0, 3.0].into_iter().flat_map(|s| APPS.iter().map(move |app| (s, app))) {
            writeln!(runs, "{slices}{kind},{watts},{app},{:.3}", rperf(f, slices, is_private, watts, None))
                .unwrap();
        }
        for at in 0..APPS.len() {
            let ((a, f), (b, g)) = (&APPS[at], &APPS[(at + 4) % APPS.len()]);
            let (p, q) =
                (rperf(f, 4.0, is_private, watts, Some(g)), rperf(g, 3.0, is_private, watts, Some(f)));
            writeln!(runs, "4{kind}+3{kind},{watts},{a}+{b},{p:.3}+{q:.3}").unwrap();
        }
    }
    fs::write(site.path().join("counters.csv"), counters).unwrap();
    fs::write(site.path().join("runs.csv"), runs).unwrap();
    site
}

fn fitted() -> Site {
    let site = site();
    site.run(&words("power fit counters.csv runs.csv --gpu a100-40gb --basis arima2022 --out model.json"));
    site
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Runs `tessera lab power choose` on the fitted model.
fn choose(site: &Site, rest: &str) -> String {
    let line = format!("power choose --model model.json --counters counters.csv {rest}");
    site.run(&words(&line))
}

fn as_json(site: &Site, rest: &str) -> (Value, String) {
    let printed = choose(site, &format!("{rest} --json"));
    let (text, status) = printed.rsplit_once("exit ").unwrap();
    (serde_json::from_str(text).unwrap(), status.to_owned())
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_fit_says_how_wrong_it_is() {
    assert_snapshot!(site().run(&words("power fit counters.csv runs.csv --gpu a100-40gb --out model.json")), @r"
    model         a100-40gb, basis tessera, counters from ncu
    caps          150, 250 W
    errors        throughput 0.0 %, fairness 0.0 %
    held out      throughput 0.1 %, fairness 0.2 %
    arima2022     throughput 0.2 %, fairness 0.2 %, held out
    written to    model.json
    exit 0
    ");
}

#[test]
fn a_choice_for_throughput_and_one_for_efficiency() {
    let site = fitted();
    assert_snapshot!(choose(&site, "--apps hgemm,stream --cap 230"), @r"
    state         4g+3g
    cap           230 W
    throughput    1.087, predicted
    fairness      0.542 (alpha 0.2)
    efficiency    0.473 per 100 W
    chosen for    the highest throughput under this cap

    APP     PART  RPERF  LOW (95 %)
    hgemm   4g    0.542       0.541
    stream  3g    0.545       0.544
    exit 0
    ");
    assert_snapshot!(choose(&site, "--apps hgemm,stream --alpha 0.3 --all"), @r"
    state         4g+3g
    cap           150 W
    throughput    1.087, predicted
    fairness      0.542 (alpha 0.3)
    efficiency    0.725 per 100 W
    chosen for    the highest throughput per watt

    APP     PART  RPERF  LOW (95 %)
    hgemm   4g    0.542       0.541
    stream  3g    0.545       0.544

       STATE  CAP  RPERF        LOW          THROUGHPUT  FAIRNESS  ALLOWED
       4c+3c  150  0.396+0.581  0.395+0.579       0.977     0.396  yes
       3c+4c  150  0.353+0.590  0.353+0.590       0.943     0.353  yes
    *  4g+3g  150  0.542+0.545  0.541+0.544       1.087     0.542  yes
       3g+4g  150  0.499+0.554  0.499+0.554       1.053     0.499  yes
       4c+3c  250  0.428+0.586  0.427+0.585       1.014     0.428  yes
       3c+4c  250  0.377+0.598  0.377+0.598       0.975     0.377  yes
       4g+3g  250  0.574+0.550  0.573+0.549       1.124     0.550  yes
       3g+4g  250  0.523+0.562  0.523+0.562       1.085     0.523  yes
    exit 0
    ");
    assert_snapshot!(choose(&site, "--apps stream,bfs --alpha 0.9"), @r"
    nothing chosen: no candidate keeps every application above 0.9: the best keeps 0.490 (3g+4g at 250 W)
    exit 1
    ");
}

#[test]
fn a_choice_has_these_keys() {
    let site = fitted();
    let (found, status) = as_json(&site, "--apps hgemm,stream --cap 230 --all");
    assert_eq!(status, "0");
    let expected = [
        "alpha",
        "apps",
        "basis",
        "candidates",
        "cap_w",
        "chosen",
        "efficiency",
        "elapsed_us",
        "fairness",
        "low",
        "measured",
        "problem",
        "rperf",
        "state",
        "throughput",
    ];
    assert_eq!(keys(&found), expected);
    assert_eq!(
        (&found["problem"], &found["cap_w"], &found["apps"]),
        (&json!(1), &json!(230), &json!(["hgemm", "stream"]))
    );
    let candidates = found["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 4);
    let expected = ["allowed", "cap_w", "fairness", "low", "rperf", "state", "throughput"];
    assert_eq!(keys(&candidates[0]), expected);
    let (none, status) = as_json(&site, "--apps hgemm,stream --alpha 0.99");
    assert_eq!((status.as_str(), &none["chosen"], &none["problem"]), ("1", &json!(false), &json!(2)));
    assert_eq!(keys(&none), ["alpha", "apps", "basis", "chosen", "elapsed_us", "problem", "reason"]);
    let (measured, _) = as_json(&site, "--apps hgemm,lavaMD --cap 250 --all");
    let of = |state: &str| {
        measured["candidates"].as_array().unwrap().iter().find(|c| c["state"] == state).unwrap()
    };
    assert_eq!(of("4g+3g")["rperf"], of("4g+3g")["low"], "measured");
    assert_ne!(of("3g+4g")["rperf"], of("3g+4g")["low"], "predicted");
    let (plain, _) = as_json(&site, "--apps hgemm,lavaMD --cap 250 --guard off");
    assert_eq!(plain["measured"], json!(false));
}

#[test]
fn the_printed_model_is_the_written_one() {
    let site = site();
    let printed = site.run(&words("power fit counters.csv runs.csv --gpu a100-40gb --out model.json --json"));
    let written = fs::read_to_string(site.path().join("model.json")).unwrap();
    assert_eq!(printed, format!("{written}exit 0"));
    let model: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(
        (&model["format"], &model["gpu"], &model["source"]),
        (&json!(1), &json!("a100-40gb"), &json!("ncu"))
    );
}

#[test]
fn what_cannot_be_done_is_one_line() {
    let site = fitted();
    let fit = |rest: &str| site.run(&words(&format!("power fit {rest}")));
    assert_snapshot!(fit("counters.csv counters.csv --gpu a100-40gb"), @r"
    stderr: tessera: counters.csv:1:state: the first line must be the header state,cap_w,apps,rperf or state,cap_w,apps,seconds
    exit 1
    ");
    assert_snapshot!(fit("counters.csv runs.csv --gpu voodoo"), @r#"
    stderr: tessera: unknown GPU model "voodoo"
    stderr: hint: `tessera profiles` lists all models
    exit 1
    "#);
    assert_snapshot!(fit("counters.csv runs.csv --gpu a100-80gb"), @r"
    stderr: tessera: counters.csv: no counters of a100-80gb
    exit 1
    ");
    assert_snapshot!(fit("counters.csv runs.csv --gpu a100-40gb --basis magic"), @r"
    stderr: error: invalid value 'magic' for '--basis <BASIS>': `magic` is not a basis: expected tessera, arima2022 or dcgm
    stderr: 
    stderr: For more information, try '--help'.
    exit 2
    ");
    let runs = fs::read_to_string(site.path().join("runs.csv")).unwrap();
    fs::write(site.path().join("few.csv"), runs.replace("3g,250,hgemm,", "3g,230,hgemm,")).unwrap();
    assert_snapshot!(fit("counters.csv few.csv --gpu a100-40gb"), @r"
    stderr: tessera: few.csv: too few runs of 3c at 230 W: 0, expected at least 6, one for each coefficient
    stderr: hint: every part and combination needs runs at every cap of the file
    exit 1
    ");
    fs::write(site.path().join("large.csv"), format!("{runs}4g+4g,250,hgemm+lud,0.5+0.5\n")).unwrap();
    assert_snapshot!(fit("counters.csv large.csv --gpu a100-40gb"), @r"
    stderr: tessera: large.csv:110:state: `4g+4g` does not fit on one a100-40gb
    exit 1
    ");
    assert_snapshot!(fit("counters.csv runs.csv --gpu a100-40gb --basis dcgm"), @r"
    stderr: tessera: counters.csv: basis dcgm cannot be combined with counters from ncu: dcgm is for dcgm and gpm, the others are for ncu
    exit 1
    ");
    assert_snapshot!(choose(&site, "--apps hgemm,quake"), @r"
    stderr: tessera: counters.csv: no counters of `quake` on a100-40gb: profile it first
    exit 1
    ");
    assert_snapshot!(choose(&site, "--apps hgemm"), @r"
    stderr: tessera: expected two or more applications with counters of each: got 1, with counters of 1
    exit 1
    ");
    assert_snapshot!(choose(&site, "--apps hgemm,lud --cap 149"), @r"
    stderr: tessera: model.json: no runs at or below 149 W: the lowest calibrated cap is 150 W
    exit 1
    ");
    assert_snapshot!(choose(&site, "--apps hgemm,lud --cap 20"), @r"
    stderr: error: invalid value '20' for '--cap <W>': `20` is not a power cap: expected whole watts from 50 to 2000
    stderr: 
    stderr: For more information, try '--help'.
    exit 2
    ");
    assert_snapshot!(choose(&site, "--apps hgemm,lud --alpha=-1"), @r"
    stderr: tessera: alpha -1 is not a fraction of the performance: expected 0 to 1, such as 0.2
    exit 1
    ");
    let model = fs::read_to_string(site.path().join("model.json")).unwrap();
    fs::write(site.path().join("model.json"), model.replace("\"format\": 1", "\"format\": 9")).unwrap();
    assert_snapshot!(choose(&site, "--apps hgemm,lud"), @r"
    stderr: tessera: model.json: format 9 of the power model is unknown, expected 1: fit the model again
    exit 1
    ");
}

const PROFILE: &str = r#"==PROF== Connected to process 42
"ID","Kernel Name","CC","gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed","gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum","lts__t_sector_hit_rate.pct","sm__pipe_tensor_op_dmma_cycles_active.avg.pct_of_peak_sustained_elapsed","sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_elapsed","sm__pipe_tensor_op_imma_cycles_active.avg.pct_of_peak_sustained_elapsed","sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active"
"","","","%","%","nsecond","%","%","%","%","%","%"
"0","void gemm<1, 2>(float*)","8.0","40","20","1,000","60","0","80","4","80","25"
"1","reduce","8.0","80","60","3,000","20","0","0","0","40","45"
"#;

#[test]
fn a_profile_becomes_a_line_of_counters() {
    let site = Site::new();
    fs::write(site.path().join("ncu.csv"), PROFILE).unwrap();
    let run = |line: &str| site.run(&words(line));
    assert_snapshot!(run("power import hgemm ncu.csv"), @r"
    hgemm,a100-40gb,ncu,50,70,50,30,40,20,0,1
    exit 0
    ");
    let json = run("power import hgemm ncu.csv --json");
    let value: Value = serde_json::from_str(json.strip_suffix("exit 0").unwrap()).unwrap();
    let wanted = ["app", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "gpu", "kernels", "source"];
    assert_eq!((keys(&value), &value["f4"]), (wanted.to_vec(), &json!(30.0)));
    let command = run("power import --command");
    assert!(
        command.starts_with("ncu ") && command.contains("--metrics gpu__time_duration.sum,"),
        "{command}"
    );
    assert_snapshot!(run("power import hgemm ncu.csv --gpu h100-80gb-sxm"), @r"
    stderr: tessera: ncu.csv: the profile is of compute capability 8.0, h100-80gb-sxm has 9.0
    stderr: hint: name the GPU model with --gpu
    exit 1
    ");
    fs::write(site.path().join("ncu.csv"), PROFILE.replace("\"8.0\"", "\"8.9\"")).unwrap();
    assert_snapshot!(run("power import hgemm ncu.csv"), @r"
    stderr: tessera: ncu.csv: the profile is of compute capability 8.9, a100-40gb has 8.0
    stderr: hint: name the GPU model with --gpu
    exit 1
    ");
    assert_snapshot!(run("power import hgemm ncu.csv --gpu l40s-48gb"), @r"
    hgemm,l40s-48gb,ncu,50,70,50,30,40,20,0,1
    exit 0
    ");
    fs::write(site.path().join("ncu.csv"), PROFILE.replace("gpu__time_duration.sum", "other")).unwrap();
    assert_snapshot!(run("power import hgemm ncu.csv"), @r"
    stderr: tessera: ncu.csv:4:gpu__time_duration.sum: the metric is missing: profile again with all of --command
    exit 1
    ");
}

/// Runs the commands of `docs/power-caps.md` that turn a report into counters. `ncu` is a stand-in that prints a report.
#[test]
fn the_commands_of_the_page_make_a_users_counters() {
    let page = include_str!("../../../docs/power-caps.md");
    let block = page.lines().skip_while(|line| !line.contains("mkdir -p ~/.config/tessera"));
    let script: String = block.take_while(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect();
    let site = Site::new();
    let at = |name: &str| site.path().join(name);
    fs::create_dir(at("bin")).unwrap();
    fs::write(at("profile"), PROFILE).unwrap();
    let ncu = "#!/bin/sh\n[ \"$*\" = '--import report.ncu-rep --csv --page raw' ] && exec cat profile\n";
    fs::write(at("bin/ncu"), ncu).unwrap();
    fs::set_permissions(at("bin/ncu"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tessera"), at("bin/tessera")).unwrap();
    let path = format!("{}:/usr/bin:/bin", at("bin").display());
    let mut shell = std::process::Command::new("sh");
    shell.args(["-e", "-c", &script]).current_dir(site.path()).env("HOME", site.path()).env("PATH", path);
    assert!(shell.status().unwrap().success(), "{script}");
    assert_snapshot!(fs::read_to_string(at(".config/tessera/counters.csv")).unwrap(), @r"
    app,gpu,source,f1,f2,f3,f4,f5,f6,f7,f8
    bert,a100-40gb,ncu,50,70,50,30,40,20,0,1
    ");
}

/// Runs `tessera lab power divide` on the fitted model, the groups in a file.
fn divide(site: &Site, groups: &str, rest: &str) -> String {
    fs::write(site.path().join("groups"), groups).unwrap();
    let line = "power divide --model model.json --counters counters.csv --groups groups --guard off";
    site.run(&words(&format!("{line} {rest}")))
}

#[test]
fn a_budget_is_divided_over_gpus() {
    let site = fitted();
    let groups = "# the node\nn1:0 hgemm+stream\nn1:1 sgemm+lavaMD\n\nn1:2  bfs+kmeans\n";
    assert_snapshot!(divide(&site, groups, "--budget 600"), @r"
    budget        600 W, 550 W used
    throughput    3.131, no division is better

    GPU   APPS          STATE  CAP  THROUGHPUT
    n1:0  hgemm+stream  4g+3g  150       1.087
    n1:1  sgemm+lavaMD  4g+3g  250       1.119
    n1:2  bfs+kmeans    4g+3g  150       0.924
    exit 0
    ");
    assert_snapshot!(divide(&site, groups, "--budget 449"), @r"
    nothing chosen: the budget of 449 W is too small: the lowest caps that keep every application above alpha add up to 450 W
    exit 1
    ");
    let json = divide(&site, groups, "--budget 700 --json");
    let value: Value = serde_json::from_str(json.strip_suffix("exit 0").unwrap()).unwrap();
    let wanted =
        ["alpha", "basis", "budget_w", "chosen", "elapsed_us", "exact", "gpus", "throughput", "used_w"];
    assert_eq!((keys(&value), &value["exact"]), (wanted.to_vec(), &json!(true)));
    let gpus = value["gpus"].as_array().unwrap();
    assert_eq!(keys(&gpus[0]), ["apps", "cap_w", "gpu", "low", "rperf", "state", "throughput"]);
    let sum: u64 = gpus.iter().map(|gpu| gpu["cap_w"].as_u64().unwrap()).sum();
    assert_eq!((gpus.len(), &value["used_w"]), (3, &json!(sum)));
    let none = divide(&site, groups, "--budget 700 --alpha 0.9 --json");
    let value: Value = serde_json::from_str(none.strip_suffix("exit 1").unwrap()).unwrap();
    assert_eq!(value["chosen"], json!(false));
}

#[test]
fn a_bad_line_of_groups_is_named() {
    let site = fitted();
    for (groups, want) in [
        ("", "groups:1:gpu: no line names a GPU and its applications, such as n1:0 hgemm+lud"),
        ("n1:0", "groups:1:apps: expected a GPU and its applications, such as n1:0 hgemm+lud"),
        ("n1:0 lud + bfs", "groups:1:apps: 4 words, expected a GPU and its applications"),
        ("n,1 lud+bfs", "groups:1:gpu: `n,1` is not a name: use letters, digits, . _ - : /"),
        ("n1:0 lud+", "groups:1:apps: `` is not a name: use letters, digits, . _ - : /"),
        ("n1:0 lud", "groups:1:apps: one application, `lud`: a GPU is divided among two or more"),
        ("n1:0 lud+bfs+stream", "groups:1:apps: no calibrated state has 3 parts"),
        ("#\nn1:0 lud+quake", "groups:2:apps: no counters of `quake` on a100-40gb: profile it first"),
        ("n1:0 lud+bfs\nn1:0 lud+bfs", "groups:2:gpu: `n1:0` is on line 1 too: one line for each GPU"),
    ] {
        assert_eq!(divide(&site, groups, "--budget 500"), format!("stderr: tessera: {want}\nexit 1"));
    }
}

/// A list of applications for `tessera lab power calibrate`.
fn apps_csv(site: &Site, lines: &[&str]) {
    fs::write(site.path().join("apps.csv"), format!("app,seconds,command\n{}\n", lines.join("\n"))).unwrap();
}

#[test]
fn a_calibration_says_first_how_long_it_takes() {
    let site = site();
    let lines: Vec<String> = APPS.iter().map(|(app, _)| format!("{app},60,./{app} --size 1,2")).collect();
    apps_csv(&site, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    let calibrate = |rest: &str| {
        let line = format!("power calibrate --apps apps.csv --node n1 --out there --dry-run {rest}");
        site.run(&words(&line))
    };
    assert_snapshot!(calibrate("--counters counters.csv --gpus 0"), @r"
    9 applications on n1, a100-40gb under 150, 170, 190, 210, 230, 250 W, on GPU 0
    9 alone on a whole GPU, 270 alone on a part, 216 next to another
    about 60 h 10 min from when the node is free
    exit 0
    ");
    assert_snapshot!(calibrate("--counters counters.csv --design small --gpus 0,1"), @r"
    9 applications on n1, a100-40gb under 150, 250 W, on GPU 0, 1
    9 alone on a whole GPU, 90 alone on a part, 72 next to another
    about 10 h 11 min from when the node is free
    exit 0
    ");
    assert!(!site.path().join("there").exists());
    assert_snapshot!(calibrate("--gpus 0"), @r"
    stderr: tessera: no counters of the applications: the site's [power] names no file
    stderr: hint: name one with --counters; `tessera lab power import` makes its lines from profiles of Nsight Compute
    exit 1
    ");
    assert_snapshot!(calibrate("--counters counters.csv --caps 200 -- --gpu-power=100"), @r"
    stderr: tessera: --gpu-power=100 after --: the calibration decides this
    stderr: hint: it sets each job's node, GPU, part and cap; options such as --partition may follow --
    exit 1
    ");
    for word in ["-oFILE", "--output=x", "-G2", "-e", "--error=x", "--nodes=2", "-N2", "-wn2", "--nodefile=x"]
    {
        let said = calibrate(&format!("--counters counters.csv -- --partition=gpu {word}"));
        assert!(
            said.starts_with(&format!("stderr: tessera: {word} after --: the calibration decides")),
            "{said}"
        );
    }
    // Who may write there could hold its lock, hang it by a FIFO, or lead it elsewhere by a link.
    fs::create_dir(site.path().join("there")).unwrap();
    fs::set_permissions(site.path().join("there"), fs::Permissions::from_mode(0o777)).unwrap();
    let line = "power calibrate --apps apps.csv --node n1 --out there --counters counters.csv --gpus 0";
    assert_snapshot!(site.run(&words(line)).replace(site.path().to_str().unwrap(), "."), @r"
    stderr: tessera: ./there: it must belong to you, and no other user may write there (chmod go-w)
    stderr: hint: name a directory with --out that only you may write to
    exit 1
    ");
    assert_eq!(fs::read_dir(site.path().join("there")).unwrap().count(), 0);
    apps_csv(&site, &["hgemm,60,./hgemm", "stream,60,./stream"]);
    assert_snapshot!(calibrate("--counters counters.csv"), @r"
    stderr: tessera: apps.csv: too few runs of 3c at 150 W: 2, expected at least 6, one for each coefficient
    stderr: hint: a model needs at least 6 applications here, better twenty of all kinds
    exit 1
    ");
    apps_csv(&site, &["hgemm,60,./hgemm", "stream,many,./stream"]);
    assert_snapshot!(calibrate("--counters counters.csv"), @r"
    stderr: tessera: apps.csv:3:8: `many` is not a number of seconds above 0 and up to a day
    exit 1
    ");
    apps_csv(&site, &["hgemm,60,./hgemm", "stream,60,./stream"]);
    assert_snapshot!(site.run(&words("power calibrate --apps apps.csv --node n9 --out there --dry-run")), @r"
    stderr: tessera: node n9 is not in tessera.toml
    stderr: hint: there are n1, n2
    exit 1
    ");
}
