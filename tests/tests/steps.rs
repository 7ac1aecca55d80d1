//! Steps and tasks that get some of their job's GPUs or instances.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{parts_of_whole_gpus, variable, with};
use lab::{Cluster, User};

#[test]
fn a_step_or_task_sees_its_own_part_of_the_jobs_gpus() {
    with(|cluster| parts_of_whole_gpus(cluster));
}

/// Three steps beside each other, which end only when all have begun; then the same once more; then one for all.
const BESIDE: &str = r#"
cat > part.sh <<'END'
echo "$1.$SLURM_LOCALID=$CUDA_VISIBLE_DEVICES"
case $1 in first*|again*) echo >> $1.begun; until [ $(cat ${1%?}?.begun | wc -l) = 3 ]; do sleep 0.1; done;; esac
END
rm -f *.begun
for round in first again; do
  for step in 1 2 3; do srun -Q -n1 --exact --gres=shard:5 sh part.sh $round$step & done
  wait
done
srun -Q -n1 sh part.sh one
srun -Q -n3 sh part.sh each
srun -n2 sh part.sh uneven 2>&1
for bind in closest single:1 none; do srun -n1 --gpu-bind=$bind sh part.sh bound 2>&1 || true; done
"#;

fn steps_have_their_own_instances(cluster: &Cluster) {
    let options = ["-w", "n1", "-n3", "--mem-per-cpu=50", "--gpu-isolation=mig:1g.5gb", "--gpu-instances=3"];
    let saw = cluster.complete(User::Alice, &options, BESIDE).unwrap();
    let seen = |what: &str| {
        let devices = variable(&saw, what).unwrap_or_else(|| panic!("no {what}: {saw}"));
        devices.split(',').map(str::to_owned).collect::<Vec<_>>()
    };
    let mut all = seen("one.0");
    all.sort();
    assert_eq!(all.len(), 3, "a step without --exact has them all: {saw}");
    for names in [
        ["first1.0", "first2.0", "first3.0"],
        ["again1.0", "again2.0", "again3.0"],
        ["each.0", "each.1", "each.2"],
    ] {
        let mut own = names.map(&seen).concat();
        own.sort();
        assert_eq!(own, all, "one for each of {names:?}: {saw}");
    }
    assert_eq!((seen("uneven.0").len(), seen("uneven.1").len()), (3, 3));
    let warning = "3 instances for 2 tasks: every task sees all of them; ask for a multiple of the tasks";
    assert_eq!(saw.matches(warning).count(), 1, "{saw}");
    assert_eq!(
        saw.matches("cannot be combined with a job that has instances or a share").count(),
        3,
        "{saw}"
    );
    assert!(!saw.contains("bound.0="), "{saw}");

    // Two instances for each of two tasks.
    let options =
        ["-w", "n1", "-n2", "--mem-per-cpu=50", "--gpu-isolation=mig:1g.5gb", "--gpu-instances=2/task"];
    let saw = cluster
        .complete(User::Alice, &options, "srun -Q sh -c 'echo t.$SLURM_LOCALID=$CUDA_VISIBLE_DEVICES'")
        .unwrap();
    let task = |name: &str| variable(&saw, name).unwrap().split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut both = [task("t.0"), task("t.1")].concat();
    assert_eq!((task("t.0").len(), task("t.1").len()), (2, 2), "{saw}");
    both.sort();
    both.dedup();
    assert_eq!(both.len(), 4, "{saw}");

    // Tasks of instances are not bound to GPUs.
    for isolation in ["--gpu-isolation=mig:1g.5gb", "--gpu-isolation=mps"] {
        let options = [isolation, "--gpu-bind=closest", "-w", "n1"];
        let said = cluster.try_sbatch(User::Alice, &options, "true").unwrap().refused().unwrap();
        assert!(said.contains("--gpu-bind=closest cannot be combined with"), "{said}");
    }
    let whole = ["--gpu-isolation=whole", "--gpu-bind=closest", "-w", "n1"];
    cluster.complete(User::Alice, &whole, "true").unwrap();
}

#[test]
fn steps_and_tasks_have_their_own_instances() {
    with(|cluster| steps_have_their_own_instances(cluster));
}
