//! `tessera layout` of a live cluster, with stand-ins for Slurm's commands.
#![allow(clippy::unwrap_used, reason = "tests")]

mod slurm;

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use insta::assert_snapshot;

/// As long as a picture may take to come.
const PATIENCE: Duration = Duration::from_secs(120);

/// `n1` has jobs 11 of alice, 12 of alice and 13 of bob; nothing is known of `n3`, and `n4` to `n60` are free.
fn site(dir: &Path) {
    fs::create_dir(dir.join("bin")).unwrap();
    let site = "[[nodes]]\nnames = \"n[1-60]\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n";
    fs::write(dir.join("tessera.toml"), site).unwrap();
    let (mut nodes, mut sinfo) = (String::new(), String::new());
    for n in 1..=60 {
        let extra = match n {
            1 => "Extra=tessera gpu0=mig[3g.20gb@0:job11] gpu1=mps[job12:2862M/25%,job13:2862M/25%]",
            3 => "",
            _ => "Extra=tessera gpu0-1=free",
        };
        writeln!(nodes, "NodeName=n{n} A=x\n   {extra}\n").unwrap();
        let (state, partition) = match n {
            1 => ("mixed", "gpu"),
            2 => ("drained", "gpu"),
            _ => ("idle", "more"),
        };
        writeln!(sinfo, "n{n} {state} {partition}").unwrap();
    }
    fs::write(dir.join("nodes"), nodes).unwrap();
    fs::write(dir.join("sinfo"), sinfo).unwrap();
    let jobs = [("11", "alice"), ("12", "alice"), ("13", "bob")].map(|(id, user)| {
        let known = [("State", "RUNNING"), ("NodeList", "n1"), ("StartTime", "1")];
        slurm::line(&[&[("JobID", id), ("UserName", user)][..], &known].concat()) + "\n"
    });
    fs::write(dir.join("jobs"), jobs.concat()).unwrap();
    for (name, text) in [
        ("squeue", "case \"$*\" in *UserID*) ;; *) cat jobs ;; esac"),
        // The partition `cpu` has no nodes.
        (
            "sinfo",
            "case \"$*\" in *time:32*) printf 'gpu 1:00\\nmore 1:00\\ncpu 1:00\\n' ;; *) cat sinfo ;; esac",
        ),
        ("scontrol", "cat nodes"),
        // The machine knows carol, who has no job.
        ("id", "case \"$*\" in *carol*|-un) echo 1003 ;; *) exit 1 ;; esac"),
    ] {
        slurm::program(dir, name, text);
    }
}

fn layout(dir: &Path, args: &[&str]) -> String {
    slurm::tessera(dir, &[&["layout"], args].concat())
}

#[test]
fn a_name_that_nobody_knows_is_no_empty_answer() {
    let dir = tempfile::tempdir().unwrap();
    site(dir.path());
    let no_partition = "stderr: tessera: Slurm has no partition gpus\n\
                        stderr: hint: did you mean gpu? there are cpu, gpu, more\nexit 1";
    let no_node = "stderr: tessera: node m1 is not in tessera.toml\n\
                   stderr: hint: there are n1, n10, n11, n12, n13, n14, n15, n16, …\nexit 1";
    for command in ["layout", "free", "top", "explain"] {
        let said = |args: &[&str]| {
            let asked = if command == "explain" { &["--gpu-mem=5G"][..] } else { &[] };
            slurm::tessera(dir.path(), &[&[command], args, asked].concat())
        };
        assert_eq!(said(&["--partition", "gpus"]), no_partition, "{command}");
        // The nearest of them may be the one that is meant, and more of them are as near.
        assert_eq!(said(&["--node", "m1"]).replace("did you mean n1? ", ""), no_node, "{command}");
        assert!(!said(&["--partition", "cpu"]).contains("Slurm has no partition"), "{command}");
    }
    for command in ["layout", "top"] {
        assert_eq!(
            slurm::tessera(dir.path(), &[command, "--user", "alcie"]),
            "stderr: tessera: there is no user alcie\n\
             stderr: hint: did you mean alice? the users with jobs are alice, bob\nexit 1",
            "{command}"
        );
    }
}

#[test]
fn users_have_names_and_nodes_are_chosen() {
    let dir = tempfile::tempdir().unwrap();
    site(dir.path());
    assert_snapshot!(layout(dir.path(), &["--partition", "gpu"]), @r"
    n1: 2 x a100-40gb, links pcie
    GPU 0 │ 3g.20gb                           │                                   │
          │ job 11 (alice)                    │ free                              │
    GPU 1 │ mps 12 (alice, 3.0 GB, 25 %), 13 (bob, 3.0 GB, 25 %)                  │

    n2: 2 x a100-40gb, links pcie (takes no jobs now)
    GPU 0 │ free                                                                  │
    GPU 1 │ free                                                                  │

    without jobs: 0 of 2 GPUs, 0 of 1 nodes
    lost to fragmentation: 1 of 1 places for 4g.20gb, 1 of 2 for 2g.10gb, 1 of 4 for 1g.5gb
    exit 0
    ");
    let chosen = layout(dir.path(), &["--user", "bob", "--json"]);
    assert_eq!(chosen.matches("\"name\"").count(), 1, "{chosen}");
    assert_eq!(chosen.matches("\"user\": \"alice\"").count(), 2, "{chosen}");
    assert_snapshot!(layout(dir.path(), &["--user", "carol"]), @r"
    carol has no job on these nodes
    exit 0
    ");
    assert_snapshot!(layout(dir.path(), &["--node", "n3"]), @r"
    n3: GPUs not known, links pcie (no layout published)
    exit 0
    ");
}

#[test]
fn many_nodes_are_groups_unless_each_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    site(dir.path());
    assert_snapshot!(layout(dir.path(), &[]), @r"
    802 of 812 compute slices free on 116 GPUs of 58 of the 60 nodes
    NODES, used alike    · free  ▄ partly  █ full  × Slurm's  ! unhealthy
       57 n[4-60]                              ··       798/798 free; 2 x a100-40gb
        1 n1                                   ▄█       4/14 free; 2 x a100-40gb
        1 n2                                   ··       takes no jobs; 2 x a100-40gb
        1 n3                                            GPUs not known

    --all draws each node; --node, --partition and --user choose nodes

    without jobs: 114 of 116 GPUs, 57 of 58 nodes
    lost to fragmentation: less than 1 %
    exit 0
    ");
    assert_snapshot!(layout(dir.path(), &["--summary", "--node", "n1"]), @r"
    4 of 14 compute slices free on 2 GPUs of 1 node
    NODES, used alike    · free  ▄ partly  █ full  × Slurm's  ! unhealthy
        1 n1                                       ▄█       4/14 free; 2 x a100-40gb

    --all draws each node; --node, --partition and --user choose nodes

    without jobs: 0 of 2 GPUs, 0 of 1 nodes
    lost to fragmentation: 1 of 1 places for 4g.20gb, 1 of 2 for 2g.10gb, 1 of 4 for 1g.5gb
    exit 0
    ");
    let all = layout(dir.path(), &["--all"]);
    assert_eq!(all.matches("links").count(), 60, "{all}");
}

#[test]
fn the_picture_follows_the_cluster_until_its_reader_goes() {
    let dir = tempfile::tempdir().unwrap();
    site(dir.path());
    let args = ["layout", "--node", "n1", "--watch", "--every", "1s"];
    let mut child = slurm::command(dir.path(), &args).stdout(Stdio::piped()).spawn().unwrap();
    let mut screen = child.stdout.take().unwrap();
    let (mut shown, mut part) = (Vec::new(), [0; 4096]);
    let begin = Instant::now();
    let mut until = |text: &str| {
        while !String::from_utf8_lossy(&shown).contains(text) {
            let n = screen.read(&mut part).unwrap();
            assert!(n > 0 && begin.elapsed() < PATIENCE, "no {text}: {}", String::from_utf8_lossy(&shown));
            shown.extend_from_slice(&part[..n]);
        }
    };
    until("11 (alice)");
    fs::write(
        dir.path().join("nodes"),
        "NodeName=n1 A=x\n   Extra=tessera gpu0=free gpu1=mig[3g.20gb@0:job13]\n",
    )
    .unwrap();
    until("13 (bob)");
    fs::write(dir.path().join("nodes"), "NodeName=n1 A=x\n   Extra=tessera gpu0=fee\n").unwrap();
    until("GPUs not known");
    drop(screen);
    assert!(child.wait().unwrap().success(), "a reader that goes is no error");
}
