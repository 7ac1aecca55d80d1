//! What `tessera.toml` asks for in vain: names that Slurm does not have, and what its node does not have. `tessera doctor`
//! names each at its place in the file, `tessera check` and slurmctld's log what they can know.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::builder;
use lab::command::{Done, PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::{Cluster, User};

fn tessera(cluster: &Cluster, command: &str) -> Done {
    run(cluster.command_on("n1", User::Root, "tessera").unwrap().arg(command)).unwrap()
}

/// Changes the cluster's file and lets slurmctld read it.
fn change(cluster: &Cluster, change: impl Fn(&str) -> String) -> String {
    let path = cluster.layout().etc("tessera.toml");
    let text = change(&std::fs::read_to_string(&path).unwrap());
    std::fs::write(&path, &text).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    text
}

/// The place of a value in the file, as messages begin: `tessera.toml:7:13: `.
fn place(text: &str, key: &str, value: &str) -> String {
    let written = format!("{key} = {value}");
    let (line, _) = text.lines().enumerate().find(|(_, line)| *line == written).unwrap();
    let quote = usize::from(value.starts_with('"'));
    format!("tessera.toml:{}:{}: ", line + 1, key.len() + " = ".len() + quote + 1)
}

#[test]
fn doctor_names_what_slurm_and_the_node_do_not_have() {
    let mut templates = Templates::shipped().unwrap();
    templates.slurm = templates.slurm.replace("gpu:h100:4", "gpu:v100:4");
    templates.gres = templates.gres.replace("Type=h100", "Type=v100");
    let cluster = builder().templates(templates).start().unwrap();
    let text = change(&cluster, |text| {
        let text = text.replace("names = \"n1\"\n", "names = \"n1\"\ncap_w = 5000\n");
        let mps = |line: &str| {
            if line.starts_with("mps_control = ") { "mps_control = \"/opt/no-mps\"" } else { line }.to_owned()
        };
        let lines: Vec<String> = text.lines().map(mps).collect();
        let names = "[[limits]]\npartition = \"gpuu\"\n[[partitions]]\nname = \"nights\"\n";
        format!("{}\n{names}", lines.join("\n"))
    });
    let limit =
        place(&text, "partition", "\"gpuu\"") + "Slurm has no partition gpuu: this limit applies to no job";
    let own =
        place(&text, "name", "\"nights\"") + "Slurm has no partition nights: these settings apply to no job";
    let model = place(&text, "gpu", "\"h100-80gb-sxm\"")
        + "slurm.conf calls the GPUs of n2 v100, this file h100-80gb-sxm";
    let cap = place(&text, "cap_w", "5000") + "cap_w = 5000 is no power limit that GPU 0 of n1 takes";
    let mps = place(&text, "mps_control", "\"/opt/no-mps\"") + "/opt/no-mps does not exist on n1";

    let doctor = tessera(&cluster, "doctor");
    assert_eq!(doctor.code, Some(1), "{}", doctor.stdout);
    for said in [&limit, &own, &model, &cap, &mps] {
        let bad = |line: &str| line.starts_with("bad ") && line.contains(said.as_str());
        assert!(doctor.stdout.lines().any(bad), "{said}\n{}", doctor.stdout);
    }
    // From slurm.conf beside the file; of the node it knows nothing.
    let check = tessera(&cluster, "check");
    assert_eq!(check.code, Some(1), "{}", check.stdout);
    for said in [&limit, &own, &model] {
        assert!(check.stdout.contains(said.as_str()), "{said}\n{}", check.stdout);
    }
    assert!(check.stdout.contains(" problems; Slurm's daemons work with the file"), "{}", check.stdout);
    // slurmctld compares at the first submission after reading the file.
    cluster.sbatch(User::Alice, &["-w", "n2"], "true").unwrap();
    let log = std::fs::read(cluster.layout().log("slurmctld")).unwrap();
    let log = String::from_utf8_lossy(&log).into_owned();
    for said in [&limit, &own] {
        let lines = log.lines().filter(|line| line.contains(said.as_str()));
        assert_eq!(lines.count(), 1, "{said}\n{log}");
    }
}

#[test]
fn doctor_asks_the_accounting_for_accounts_22_05() {
    let cluster = builder().accounting().start().unwrap();
    cluster.run(User::Root, "sacctmgr", &["-i", "add", "account", "physics"]).unwrap().ok().unwrap();
    let text = change(&cluster, |text| {
        format!("{text}\n[[limits]]\naccount = \"phisics\"\n[[limits]]\naccount = \"Physics\"\n")
    });
    let account = place(&text, "account", "\"phisics\"")
        + "Slurm has no account phisics: this limit applies to no job (did you mean physics?)";
    let doctor = tessera(&cluster, "doctor");
    let said: Vec<&str> = doctor.stdout.lines().filter(|line| line.starts_with("bad ")).collect();
    assert!(doctor.code == Some(1) && said.len() == 1 && said[0].ends_with(&account), "{}", doctor.stdout);
}

/// A wrong number of shards in slurm.conf drains the node, also when the file is right again.
#[test]
fn doctor_says_why_slurm_keeps_a_node_from_jobs_22_05() {
    let cluster = builder().start().unwrap();
    assert_eq!(tessera(&cluster, "doctor").code, Some(0));
    let path = cluster.layout().etc("slurm.conf");
    let good = std::fs::read_to_string(&path).unwrap();
    // A change of the file that slurmctld has not read yet.
    std::fs::write(&path, good.replace("PrologFlags=", "#PrologFlags=")).unwrap();
    let said = tessera(&cluster, "doctor").stdout;
    let lost = "bad  slurm.conf: PrologFlags lacks Alloc, with which slurmctld still works: add it before slurmctld starts again\n";
    assert!(said.contains(lost), "{said}");
    let line = good.lines().find(|line| line.starts_with("NodeName=n2 ")).unwrap();
    let (before, shards) = line.rsplit_once("shard:").unwrap();
    let reconfigured = |conf: &str| {
        std::fs::write(&path, conf).unwrap();
        cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
        wait_for("n2 to be drained", PATIENCE, || {
            let shown = cluster.run(User::Root, "scontrol", &["show", "node", "n2"]).unwrap().ok().unwrap();
            if shown.contains("+DRAIN") && shown.contains("gres/shard count") { Ok(()) } else { Err(shown) }
        })
        .unwrap();
        tessera(&cluster, "doctor")
    };
    let why = "bad  n2: Slurm keeps it from jobs (IDLE+DRAIN";
    let file = format!("bad  n2: slurm.conf has shard:80 in its Gres=, tessera.toml comes to shard:{shards}");
    let said = reconfigured(&good.replace(line, &format!("{before}shard:80")));
    assert!(
        said.code == Some(1) && said.stdout.contains(why) && said.stdout.contains(&file),
        "{}",
        said.stdout
    );
    let said = reconfigured(&good).stdout;
    assert!(
        said.contains(why) && said.contains("nodename=n2 state=resume") && !said.contains(&file),
        "{said}"
    );
    cluster.run(User::Root, "scontrol", &["update", "nodename=n2", "state=resume"]).unwrap().ok().unwrap();
    cluster
        .run(User::Root, "scontrol", &["update", "nodename=n1", "state=drain", "reason=disk"])
        .unwrap()
        .ok()
        .unwrap();
    let said = tessera(&cluster, "doctor").stdout;
    assert!(said.contains("skip n1: takes no jobs (IDLE+DRAIN): disk\n") && !said.contains(why), "{said}");
}
