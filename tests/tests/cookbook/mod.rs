//! The recipes of docs/cookbook.md, as they stand there. PyTorch, Jupyter and the like have stand-ins, which print what they see.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::command::run;
use lab::paths::workspace;
use lab::{Cluster, User};
use slurm_releases::Release;

use crate::common::{skipped, variable};

/// Stands for a program of a recipe. As `python3 -c …` it is asked for a free port.
const STAND_IN: &str = "#!/bin/sh\n[ \"$1\" = -c ] && exec echo 40000\n\
                        echo \"saw $CUDA_VISIBLE_DEVICES on $SLURMD_NODENAME: ${0##*/} $*\"\n";

/// Renders the form of Open OnDemand, and for each of its answers the options of sbatch: a line of JSON each.
const RENDER: &str = r#"
require "erb"; require "yaml"; require "json"
render = ->(file, answers) { YAML.safe_load(ERB.new(File.read(file), trim_mode: "-").result(answers)) }
answers = binding
form = render.(ARGV[0], answers)
asked = form["attributes"].transform_values { |attribute| attribute["value"] }
abort "no attribute for a field" unless (form["form"] - asked.keys).empty?
form["attributes"]["gpu"]["options"].each do |_, gpu|
  asked.merge("gpu" => gpu).each { |name, value| answers.local_variable_set(name, value.to_s) }
  puts render.(ARGV[1], answers)["script"]["native"].to_json
end
"#;

fn executable(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// A directory of Alice's with the page's scripts, by their jobs' names, and the stand-ins below `bin`.
fn kitchen(cluster: &Cluster) -> PathBuf {
    let dir = cluster.layout().jobs().join("cookbook");
    std::fs::create_dir_all(dir.join("bin")).unwrap();
    std::fs::set_permissions(&dir, Permissions::from_mode(0o1777)).unwrap();
    let page = std::fs::read_to_string(workspace().join("docs/cookbook.md")).unwrap();
    for script in page.split("```bash\n").skip(1) {
        let script = script.split("```").next().unwrap();
        let name = script.split("--job-name=").nth(1).unwrap().lines().next().unwrap();
        executable(&dir.join(format!("{name}.sh")), script);
    }
    for program in ["python3", "torchrun", "jupyter"] {
        executable(&dir.join("bin").join(program), STAND_IN);
    }
    dir
}

fn as_alice(cluster: &Cluster, line: &str) -> String {
    run(cluster.command(User::Alice, "sh").unwrap().args(["-c", line])).unwrap().ok().unwrap()
}

/// The devices that the programs of a recipe saw, and the rest of their lines.
fn saw(log: &str) -> Vec<(Vec<&str>, &str)> {
    let lines = log.lines().filter_map(|line| line.strip_prefix("saw ")?.split_once(" on "));
    lines.map(|(devices, rest)| (devices.split(',').collect(), rest)).collect()
}

/// Checks that a recipe's programs saw one instance each, no two the same, and returns what else they said.
fn one_each(log: &str, programs: usize) -> Vec<&str> {
    let saw = saw(log);
    let devices: BTreeSet<&str> = saw.iter().flat_map(|(devices, _)| devices).copied().collect();
    assert!(saw.iter().all(|(devices, _)| devices.len() == 1 && devices[0].starts_with("MIG-")), "{log}");
    assert_eq!((saw.len(), devices.len()), (programs, programs), "{log}");
    saw.into_iter().map(|(_, rest)| rest).collect()
}

/// Submits every script of the page, all at once.
pub(crate) fn scripts_run(cluster: &Cluster) {
    let dir = kitchen(cluster);
    let line = "for job in *.sh; do sbatch -Q --wait $job & done; wait";
    as_alice(cluster, &format!("cd {0} && PATH={0}/bin:$PATH && {line}", dir.display()));
    let log = |name: &str| {
        let entries = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
        let ours = entries.filter(|path| path.to_str().is_some_and(|path| path.ends_with(".log")));
        let begin = dir.join(format!("{name}-"));
        let ours = ours.filter(|path| path.to_str().unwrap().starts_with(begin.to_str().unwrap()));
        ours.map(|path| std::fs::read_to_string(path).unwrap()).collect::<String>()
    };
    assert!(one_each(&log("train"), 1)[0].ends_with(": python3 train.py"));
    one_each(&log("sweep"), 7);
    one_each(&log("four"), 4);
    let jupyter = log("jupyter");
    assert!(
        one_each(&jupyter, 1)[0].contains(": jupyter lab ") && jupyter.contains("-L 40000:127.0.0.1:40000 ")
    );

    let ring = log("ddp");
    let [(devices, _)] = &saw(&ring)[..] else { panic!("{ring}") };
    assert!(devices.len() == 4 && ring.contains(": ring at "), "{ring}");
    let both = log("ddp2");
    let saw = saw(&both);
    assert!(saw.len() == 2 && saw.iter().all(|(devices, _)| devices.len() == 4), "{both}");
    assert_eq!(both.matches(" --rdzv-endpoint=n1:29500 ").count(), 2, "{both}");
}

/// A shell of salloc is on the node, and sees the GPU, where slurm.conf says so.
pub(crate) fn a_shell_of_salloc_is_on_the_node(cluster: &Cluster) {
    // salloc starts $SHELL on the node, and a runner of tests may have none.
    let conf = std::fs::read_to_string(cluster.layout().etc("slurm.conf")).unwrap();
    let ours = cluster.layout().jobs().join("interactive.conf");
    std::fs::write(&ours, format!("{conf}\nLaunchParameters=use_interactive_step\n")).unwrap();
    let typed = r"echo sees=$CUDA_VISIBLE_DEVICES\nexit\n";
    let line = format!(
        "printf '{typed}' | SHELL=/bin/sh SLURM_CONF={} timeout 60 script -qec 'salloc --gpu-mem=10G' /dev/null",
        ours.display()
    );
    let said = as_alice(cluster, &line);
    assert!(said.contains("sees=MIG-"), "{said}");
}

/// Each answer to the form of Open OnDemand is a job of the kind that was asked for.
pub(crate) fn answers_to_the_form_are_jobs(cluster: &Cluster) {
    let files =
        ["form.yml.erb", "submit.yml.erb"].map(|name| workspace().join("contrib/open-ondemand").join(name));
    let Ok(rendered) = run(Command::new("ruby").args(["-e", RENDER]).args(files)) else {
        return skipped("the form of Open OnDemand: ruby is not installed");
    };
    let rendered = rendered.ok().unwrap();
    let got = rendered.lines().map(|line| {
        let options: Vec<String> = serde_json::from_str(line).unwrap();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let said = cluster.complete(User::Alice, &options, "echo got=${TESSERA_ISOLATION:-nothing}").unwrap();
        variable(&said, "got").unwrap()
    });
    assert_eq!(got.collect::<Vec<_>>(), ["mig", "mig", "mps", "whole", "nothing"]);
}

/// An image with NVIDIA's nvidia-smi and nothing else; C's libraries come from the machine.
const IMAGE: &str = "mkdir -p image/{bin,dev,etc,lib,lib64,proc,run,sys,tmp} && cp \"$SMI\" image/bin && \
                     tar -C image -c . | podman import -q - image > imported && ";

/// The page's recipe for podman as a job's script, in a directory where Alice may write.
fn recipe_of_podman(cluster: &Cluster, begin: &str) -> String {
    let page = std::fs::read_to_string(workspace().join("docs/cookbook.md")).unwrap();
    let (_, recipe) = page.split_once("```sh\ndevices=()").unwrap();
    let (recipe, _) = recipe.split_once("```").unwrap();
    let layout = cluster.layout();
    // The simulator's devices are elsewhere.
    let recipe = recipe.replace("/dev/nvidia", &format!("{}/dev/nvidia", layout.node("n1").display()));
    let (lib, state, smi) = (layout.at("lib"), layout.sim_state("n1"), layout.at("bin/nvidia-smi"));
    let libraries = format!(
        "--network=none --volume /lib:/lib:ro --volume /lib64:/lib64:ro --volume {0}:{0}:ro --volume {1}:{1} \
         --env LD_LIBRARY_PATH={0} --env NVML_SIM_STATE={1}",
        lib.display(),
        state.display()
    );
    let smi = smi.display();
    format!("#!/bin/bash\nset -e\n{begin}\nSMI={smi}\n{IMAGE}libraries='{libraries}'\ndevices=(){recipe}")
}

/// A container of podman has the devices of its job, and not those of another user on the same GPU.
pub(crate) fn podman_shows_the_jobs_devices(cluster: &Cluster) {
    if cluster.release() != Release::MACHINE {
        return;
    }
    let dir = cluster.layout().jobs().join("podman");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(&dir, Permissions::from_mode(0o1777)).unwrap();
    // crun refuses a machine that has both versions of control groups.
    std::fs::write(dir.join("conf"), "[engine]\nruntime = \"runc\"\n").unwrap();
    let begin =
        format!("cd {} && export HOME=$PWD/home CONTAINERS_CONF=$PWD/conf && mkdir -p $HOME", dir.display());
    let mut probe = cluster.command(User::Alice, "sh").unwrap();
    let probe = run(probe.args(["-c", &format!("{begin} && podman unshare true")])).unwrap();
    if probe.code != Some(0) {
        return skipped(&format!("containers of users: {}", probe.stderr.trim()));
    }
    executable(&dir.join("job.sh"), &recipe_of_podman(cluster, &begin));
    let other = cluster.sbatch(User::Bob, &["-w", "n1", "--gpu-isolation=mig:1g.5gb"], "sleep 600").unwrap();
    cluster.wait_job(other, "running", |job| job.state() == "RUNNING").unwrap();
    let sees = |options: &[&str], gpus: usize, instances: usize| {
        let script = format!("exec {}/job.sh", dir.display());
        let said = cluster.complete(User::Alice, &[&["-w", "n1"], options].concat(), &script).unwrap();
        let names = |what: &str| said.lines().filter(|line| line.trim_start().starts_with(what)).count();
        assert_eq!((names("GPU "), names("MIG ")), (gpus, instances), "{said}");
    };
    sees(&["--gpu-isolation=mig:1g.5gb"], 1, 1);
    sees(&["--gpu-isolation=whole", "--gpus-per-node=2"], 2, 0);
    // A process of podman keeps the user's namespace.
    as_alice(cluster, &format!("{begin} && podman system migrate"));
    cluster.run(User::Root, "scancel", &[&other.to_string()]).unwrap().ok().unwrap();
    cluster.wait_end(other).unwrap();
}
