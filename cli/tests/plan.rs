//! What a person reads from `tessera plan`, and what a program can check in its JSON.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use serde_json::Value;

const NAMED: &str = "\
# minutes of a profiling run
name,1g,2g,3g,4g,7g
lavamd,60.5s,31s,22s,17s,11s
gaussian,20s,9s,6s,6s,6s
train-a,,80s,55s,40s,24s
train-b,,75s,50s,41s,25s
hotspot,33s,20s,14s,12s,9s
infer,12s,11s,10s,10s,10s
";

/// Runs `tessera plan` on a file of this content.
fn run(name: &str, content: &str, args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(name), content).unwrap();
    fs::write(dir.path().join("free"), "size,create,destroy\n1g,0,0\n2g,0,0\n3g,0,0\n4g,0,0\n7g,0,0\n")
        .unwrap();
    command(dir.path(), &[&["plan", "--tasks", name], args].concat())
}

fn command(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    command.args(args).current_dir(dir).env_clear().env("COLUMNS", "100").stdin(Stdio::null());
    let out = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
    let stderr: String = stderr.lines().map(|l| format!("stderr: {l}\n")).collect();
    format!("{stdout}{stderr}exit {}", out.status.code().unwrap())
}

#[test]
fn the_sample_file_of_the_tutorial_can_be_planned() {
    let sample = include_str!("../../contrib/example/tasks.csv");
    let said = run("tasks.csv", sample, &["--gpu", "a100-40gb"]);
    assert!(said.starts_with("tasks.csv: 6 jobs on 1 x a100-40gb") && said.ends_with("exit 0"), "{said}");
}

#[test]
fn times_are_as_everywhere_and_semicolons_are_named() {
    let minutes = run("a.csv", "name,1g,7g\na,1:30,0:45\nb,1:01:00.5,50s\n", &["--gpu", "a100-40gb"]);
    assert_snapshot!(minutes, @r#"
    stderr: tessera: a.csv:3: field 1g: "1:01:00.5" is not a time
    stderr: hint: 90s, 20m, 2h, 1d, MM:SS, H:MM:SS or D-HH; a number alone is minutes, as for sbatch; above 0, at most 10000000s; empty if the job cannot run there
    exit 1
    "#);
    let chart = |times: &str| run("a.csv", &format!("name,1g,7g\na,{times}\n"), &["--gpu", "a100-40gb"]);
    assert_eq!(chart("1:30,0:45"), chart("90s,45s"));
    assert_eq!(chart("2,1"), chart("120s,0:01:00"), "a number alone is minutes");
    let semicolons = run("a.csv", "name;1g;7g\na;90;45\n", &["--gpu", "a100-40gb"]);
    assert_snapshot!(semicolons, @r"
    stderr: tessera: a.csv:1: its fields are separated by semicolons, not by commas
    stderr: hint: save the file as CSV with commas, and with points in decimal numbers
    exit 1
    ");
}

#[test]
fn a_chart_and_a_list() {
    assert_snapshot!(run("batch.csv", NAMED, &["--gpu", "a100-40gb"]), @r"
    batch.csv: 6 jobs on 1 x a100-40gb, policy tessera
    68.580 s, proven the best possible

    GPU 0
       0 [gaussian]x [train-a==================================][lavamd===========]
       1 [========]x [=========================================][=================]
       2 [infer=====][=========================================][=================]
       3 [==========][=========================================][=================]
       4 [train-b=============================================][hotspot======]
       5 [====================================================][=============]
       6 [====================================================][=============]
         0                                                                   68.6 s
         + create  x destroy

    name      GPU  instance    begin     end
    infer       0  2g.10gb@2   0.170  11.170
    gaussian    0  2g.10gb@0   0.340   9.340
    train-b     0  3g.20gb@4   0.540  50.540
    train-a     0  4g.20gb@0  11.580  51.580
    hotspot     0  3g.20gb@4  50.540  64.540
    lavamd      0  4g.20gb@0  51.580  68.580
    exit 0
    ");
}

#[test]
fn all_policies_side_by_side() {
    let text = run("batch.csv", NAMED, &["--gpu", "a100-40gb", "--compare"]);
    // The last column is the time planning took.
    let lines = text.lines().map(|l| l.rsplit_once("  ").map_or(l, |(rest, _)| rest).trim_end());
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r"
    batch.csv: 6 jobs; 1 x a100-40gb

    policy                 makespan s  of tessera  of baseline  gap at most  proven  operations
    tessera                     68.58       1.000        1.107        0.0 %       1           6
    far                         71.00       1.035        1.146       14.4 %       0           5
    miso                        97.59       1.423        1.576       57.2 %       0           8
    fixpart-best                71.00       1.035        1.146       14.6 %       0           0
    fixpart:1,1,1,1,1,1,1           -           -            -            -       -           -
    fixpart:7                   85.00       1.239        1.373       37.3 %       0           0
    exit 0
    ");
}

#[test]
fn bad_files_are_refused_with_line_and_field() {
    let csv = |content: &str| run("batch.csv", content, &["--gpu", "a100-40gb"]);
    let json = |content: &str| run("batch.jsonl", content, &["--gpu", "a30-24gb"]);
    let all = [
        csv(""),
        csv("name,1g,5g\n"),
        csv("name,1g,2g\na,1,x\n"),
        csv("name,1g,2g\na,1\n"),
        csv("name,1g,2g\na,,\n"),
        csv("name,1g,2g\na,1,-2\n"),
        json("{\"t\":[[1,2]]}"),
        json("{\"t\":[[1,2,3]]}\n{\"t\":[[1,2,3],[1,0,3]]}"),
        json("{\"t\":[[1,2,3]],\"n\":2}"),
        json("{\"t\":[[1,2,3]],\"times\":2}"),
        json("{\"t\":[[null,null,null]]}"),
        json("{\"id\":\"a\"}"),
        json("{\"t\":[[1,2,3]}"),
        run("batch.jsonl", "{\"t\":[[1,2,3]]}", &[]),
        run("batch.jsonl", "{\"t\":[[1,2,3]],\"gpu\":\"V100\"}", &[]),
        run("batch.csv", NAMED, &["--gpu", "v100"]),
        run("batch.csv", NAMED, &["--gpu", "v100-16gb"]),
        run("batch.csv", NAMED, &["--gpu", "a100-40gb", "--policy", "fixpart:4,4"]),
        run("batch.csv", NAMED, &["--gpu", "a100-40gb", "--policy", "fixpart:1,1,1,1,1,1,1"]),
        run("batch.csv", NAMED, &["--gpu", "a100-40gb", "--times", "batch.csv"]),
    ];
    let all = all.join("\n").replace("\nexit 1", "");
    assert_snapshot!(all, @r#"
    stderr: tessera: batch.csv:1: no job
    stderr: tessera: batch.csv:1: field 5g: no such column
    stderr: hint: columns are name, the sizes of a100-40gb: 1g, 2g, 3g, 4g, 7g, and command
    stderr: tessera: batch.csv:2: field 2g: "x" is not a time
    stderr: hint: 90s, 20m, 2h, 1d, MM:SS, H:MM:SS or D-HH; a number alone is minutes, as for sbatch; above 0, at most 10000000s; empty if the job cannot run there
    stderr: tessera: batch.csv:2: 2 fields, the header has 3
    stderr: tessera: batch.csv:2: the job has no time for any size
    stderr: tessera: batch.csv:2: field 2g: "-2" is not a time
    stderr: hint: 90s, 20m, 2h, 1d, MM:SS, H:MM:SS or D-HH; a number alone is minutes, as for sbatch; above 0, at most 10000000s; empty if the job cannot run there
    stderr: tessera: batch.jsonl:1: field t[0]: 2 times, expected 3
    stderr: hint: a30-24gb has the sizes 1g, 2g, 4g
    stderr: tessera: batch.jsonl:2: field t[1][1]: 0 is not a time
    stderr: hint: seconds, more than 0 and at most 10000000; null if the job cannot run there
    stderr: tessera: batch.jsonl:1: field n: 2, but t has 1 job
    stderr: tessera: batch.jsonl:1: field times: unknown
    stderr: hint: fields are id, gpu, n, t, name and command
    stderr: tessera: batch.jsonl:1: field t[0]: the job has no time for any size
    stderr: tessera: batch.jsonl:1: field t: missing
    stderr: tessera: batch.jsonl:1: column 14: not a JSON object: expected `,` or `]`
    stderr: tessera: batch.jsonl:1: no GPU model given
    stderr: hint: add --gpu MODEL[,N], or "gpu" to each batch
    stderr: tessera: batch.jsonl:1: field gpu: unknown GPU model "V100"
    stderr: hint: did you mean v100-16gb or v100-32gb?
    stderr: tessera: --gpu: unknown GPU model "v100"
    stderr: hint: did you mean v100-16gb or v100-32gb?
    stderr: tessera: --gpu: v100-16gb cannot be partitioned into MIG instances
    stderr: hint: `tessera profiles` lists the models and their instances
    stderr: tessera: batch.csv: the GPU has no partition 4,4; its partitions are 7 4,3 4,2,1 4,1,1,1 3,3 3,2,1 3,1,1,1 2,2,3 2,1,1,3 1,1,2,3 1,1,1,1,3 2,2,2,1 2,2,1,1,1 2,1,1,2,1 2,1,1,1,1,1 1,1,2,2,1 1,1,2,1,1,1 1,1,1,1,2,1 1,1,1,1,1,1,1
    stderr: tessera: batch.csv: fixpart:1,1,1,1,1,1,1: some job runs at no size that this policy offers it
    stderr: tessera: batch.csv:2: "name,1g,2g,3g,4g,7g": expected size,create,destroy
    "#);
}

/// Everything that stands in the answer, checked without any of the planner's code.
#[test]
fn the_json_says_all_that_is_needed_to_check_it() {
    for policy in ["tessera", "far", "miso", "fixpart-best"] {
        let text = run("batch.csv", NAMED, &["--gpu", "a100-40gb", "--json", "--policy", policy]);
        let (line, exit) = text.rsplit_once('\n').unwrap();
        assert_eq!(exit, "exit 0");
        let plan: Value = serde_json::from_str(line).unwrap();
        assert_eq!(plan["policy"], policy);
        let list = |key: &str| plan[key].as_array().cloned().unwrap_or_default();
        let number = |v: &Value, key: &str| v[key].as_f64().unwrap();
        let tasks = list("tasks");
        let order: Vec<u64> = tasks.iter().map(|t| t["task"].as_u64().unwrap()).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        let latest = tasks.iter().map(|t| number(t, "end")).fold(0.0, f64::max);
        assert!((latest - number(&plan, "makespan")).abs() < 1e-9);
        assert!(number(&plan, "lower_bound") <= latest);
        let mut ops = list("ops");
        ops.sort_by(|a, b| number(a, "begin").total_cmp(&number(b, "begin")));
        assert!(
            ops.windows(2).all(|w| number(&w[0], "end") <= number(&w[1], "begin") + 1e-9),
            "one at a time"
        );
        for task in &tasks {
            let at = |v: &Value| (v["gpu"].clone(), v["start"].clone(), v["size"].clone());
            let made = |o: &&Value| o["op"] == "create" && at(o) == at(task);
            let before = ops.iter().filter(made).map(|o| number(o, "end")).next();
            let before = before.or_else(|| list("given").iter().find(|g| at(g) == at(task)).map(|_| 0.0));
            assert!(before.unwrap() <= number(task, "begin") + 1e-9, "{policy}: created before it is used");
        }
    }
}

#[test]
fn the_same_plan_every_time() {
    let plan = || run("batch.csv", NAMED, &["--gpu", "a100-40gb,2", "--budget", "5ms"]);
    assert_eq!(plan(), plan());
}

#[test]
fn the_picture_shows_tasks_and_operations() {
    let svg = run("batch.csv", NAMED, &["--gpu", "a100-40gb", "--svg", "-"]);
    assert_eq!(svg.matches("class=\"task\"").count(), 6);
    for class in ["create", "destroy"] {
        assert!(
            svg.matches(&format!("<rect class=\"{class}\"")).count() > 1,
            "more than the legend's {class}"
        );
    }
    assert!(svg.contains(">train-a</text>") && svg.ends_with("</svg>\nexit 0"));
}

/// Left, top, right and bottom of the rectangles of a class.
fn boxes(svg: &str, class: &str) -> Vec<[f64; 4]> {
    let number = |rect: &str, name: &str| -> f64 {
        let from = rect.split_once(&format!(" {name}=\"")).unwrap().1;
        from.split_once('"').unwrap().0.parse().unwrap()
    };
    let rects = svg.split("<rect ").skip(1).map(|rest| format!(" {}", rest.split_once("/>").unwrap().0));
    let of_class = rects.filter(|rect| rect.contains(&format!("class=\"{class}\"")));
    let corners =
        of_class.map(|r| [number(&r, "x"), number(&r, "y"), number(&r, "width"), number(&r, "height")]);
    corners.map(|[x, y, w, h]| [x, y, x + w, y + h]).collect()
}

#[test]
fn everything_in_the_picture_is_within_its_gpus_frame() {
    for (gpu, tasks) in [("a100-40gb", 6), ("h100-80gb-sxm,2", 300)] {
        let header = "name,1g,2g,3g,4g,7g".to_owned();
        let rows = (0..tasks).map(|t| format!("t{t},{}s,{}s,,{}s,", 10 + t % 7, 8 + t % 5, 4 + t % 3));
        let csv = [header].into_iter().chain(rows).collect::<Vec<_>>().join("\n");
        let svg = run("batch.csv", &csv, &["--gpu", gpu, "--svg", "-"]);
        let frames = boxes(&svg, "lane");
        let inside = |b: &[f64; 4]| {
            let within =
                |f: &&[f64; 4]| f[0] <= b[0] + 0.01 && f[1] <= b[1] && b[2] <= f[2] + 1.6 && b[3] <= f[3];
            frames.iter().any(|f| within(&f))
        };
        let drawn: Vec<[f64; 4]> =
            ["task", "create", "destroy"].iter().flat_map(|c| boxes(&svg, c)).collect();
        let legend = 2;
        assert_eq!(drawn.iter().filter(|b| !inside(b)).count(), legend, "{gpu}: {svg}");
        assert_eq!(boxes(&svg, "task").len(), tasks);
        let page = boxes(&svg, "bg")[0];
        assert!(frames.iter().all(|f| f[2] < page[2] && f[3] < page[3]), "{gpu}");
    }
}

#[test]
fn most_tasks_of_a_large_picture_have_their_names() {
    let rows = (0..300).map(|t| (t, 60 + t * 37 % 3900));
    let rows = rows.map(|(t, s)| format!("training-run-{t},{s}s,{}s,,{}s,\n", s / 2 + 1, s / 3 + 1));
    let csv = ["name,1g,2g,3g,4g,7g\n".to_owned()].into_iter().chain(rows).collect::<String>();
    let svg = run("batch.csv", &csv, &["--gpu", "a100-40gb,4", "--svg", "-"]);
    let named = svg.matches(">training-run-").count() - svg.matches("<title>training-run-").count();
    assert!(named >= 270, "{named} of 300");
    let page = boxes(&svg, "bg")[0];
    assert!(page[2] < 12_200.0, "{page:?}");
}

#[test]
fn reconfiguration_times_may_be_given() {
    let text = run("batch.csv", NAMED, &["--gpu", "a100-40gb", "--times", "free"]);
    assert_eq!(text.lines().nth(1).unwrap(), "68.000 s, proven the best possible");
}

/// Without the times that planning took.
fn untimed(text: &str) -> String {
    let line = |l: &str| match serde_json::from_str::<Value>(l) {
        Ok(mut plan) => {
            plan["plan_us"] = Value::Null;
            plan.to_string()
        }
        Err(_) => l.rsplit_once("  ").map_or(l, |(rest, _)| rest).trim_end().to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_command_and_its_flags_do_the_same() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("batch.csv"), NAMED).unwrap();
    let run = |line: &str| untimed(&command(dir.path(), &line.split(' ').collect::<Vec<_>>()));
    for (with_command, with_flags) in [
        ("plan show batch.csv --gpu a100-40gb", "plan --tasks batch.csv --gpu a100-40gb"),
        ("plan show --gpu a100-40gb,2 --json batch.csv", "plan --gpu a100-40gb,2 --json --tasks batch.csv"),
        (
            "plan show batch.csv --gpu a100-40gb --policy far --svg -",
            "plan --tasks batch.csv --gpu a100-40gb --policy far --svg -",
        ),
        ("plan compare batch.csv --gpu a100-40gb", "plan --tasks batch.csv --gpu a100-40gb --compare"),
        ("plan show none.csv", "plan --tasks none.csv"),
    ] {
        assert_eq!(run(with_command), run(with_flags), "{with_command}");
    }
    assert!(run("plan show batch.csv --gpu a100-40gb").ends_with("exit 0"));
    // Which of the two is meant is not guessed.
    for both in ["plan --gpu a100-40gb show batch.csv", "plan --tasks batch.csv show batch.csv"] {
        assert!(run(both).ends_with("exit 2"), "{both}");
    }
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    for args in [
        "--compare --json",
        "--compare --policy far",
        "--json --svg x",
        "--submit",
        "--on n1",
        "--on n1 --submit --gpu a100-40gb",
        "--on n1 --submit --compare",
        "--on n1 --submit --wait --dry-run",
        "--dry-run",
        "--record x",
        "--reality x",
        "-- --partition=gpu",
    ] {
        let said = run("batch.csv", NAMED, &args.split(' ').collect::<Vec<_>>());
        assert!(said.ends_with("exit 2"), "{args}: {said}");
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(command(dir.path(), &["plan"]).contains("--tasks <FILE>"));
}
