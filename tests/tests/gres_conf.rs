//! A gres.conf that leaves out a GPU, or lists the GPUs in another order than the driver: jobs get the GPUs that Slurm
//! means.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::os::unix::fs::MetadataExt;

use common::{builder, variable};
use lab::config::Templates;
use lab::{Cluster, User};

/// Says Slurm's number and the devices of the job and of a step, and which GPUs can be opened.
const WHICH: &str = "echo number=$SLURM_JOB_GPUS\necho cuda=$CUDA_VISIBLE_DEVICES\n\
                     echo step=$(srun --quiet sh -c 'echo $CUDA_VISIBLE_DEVICES' 2>/dev/null)\n\
                     nvidia-smi -L\necho looked\nexec sleep 600";

/// The GPUs of a node whose device files are `user`'s alone, by minor number.
fn owned(cluster: &Cluster, node: &str, user: User) -> Vec<u32> {
    let (uid, _) = user.ids().unwrap();
    let owner = |minor: &u32| {
        let path = cluster.layout().node(node).join(format!("dev/nvidia{minor}"));
        std::fs::metadata(path).is_ok_and(|meta| meta.uid() == uid)
    };
    (0..8).filter(owner).collect()
}

#[test]
fn jobs_get_the_gpus_that_slurm_means() {
    let mut templates = Templates::shipped().unwrap();
    // n2: one GPU fewer than there are, which tessera.toml knows. n1: the first and the last change places.
    templates.slurm = templates.slurm.replace("gpu:h100:4", "gpu:h100:3");
    templates.gres = templates
        .gres
        .replace("Type=h100 File=/dev/nvidia[0-3]", "Type=h100 File=/dev/nvidia[1-3]")
        .replace("/dev/nvidia0 ", "/dev/nvidiaX ")
        .replace("/dev/nvidia7 ", "/dev/nvidia0 ")
        .replace("/dev/nvidiaX ", "/dev/nvidia7 ");
    let cluster = builder().templates(templates).start().unwrap();
    let run = |options: &[&str], node: &str| {
        let job = cluster.sbatch(User::Alice, &[options, &["-w", node]].concat(), WHICH).unwrap();
        let text = common::looked(&cluster, job);
        let number: u32 = variable(&text, "number").unwrap().parse().unwrap_or_else(|_| panic!("{text}"));
        assert_eq!(variable(&text, "step"), variable(&text, "cuda"), "{text}");
        let minors = owned(&cluster, node, User::Alice);
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap();
        cluster.wait_idle().unwrap();
        assert_eq!(owned(&cluster, node, User::Alice), [] as [u32; 0]);
        (number, minors, text)
    };
    let (number, minors, text) = run(&["--gres=gpu:1"], "n2");
    assert_eq!((number, &minors[..]), (0, &[1][..]), "{text}");
    for options in [&["--gres=gpu:1"][..], &["--gpu-isolation=whole"], &["--gpu-isolation=mig:1g.5gb"]] {
        let (number, minors, text) = run(options, "n1");
        let meant = match number {
            0 => 7,
            7 => 0,
            same => same,
        };
        assert_eq!(minors, [meant], "{options:?}: {text}");
        assert!(number == 0 || options[0] != "--gres=gpu:1", "Slurm takes the first: {text}");
    }
    let mut doctor = cluster.command_on("n1", User::Root, "tessera").unwrap();
    let said = lab::command::run(doctor.arg("doctor")).unwrap();
    let want = "gres.conf lists GPUs 7,1,2,3,4,5,6,0 of the driver's 0,1,2,3,4,5,6,7";
    assert!(said.stdout.contains(want), "{}", said.stdout);
    assert_eq!(cluster.leftovers().unwrap(), [""; 0]);
}
