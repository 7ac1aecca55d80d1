//! Jobs of GPU tasks, as `tessera explain` and `tessera layout` show them.

use insta::assert_snapshot;

use super::Site;

/// What a command says on a site with a pool, and one node of two A30s.
fn run(args: &[&str]) -> String {
    let site = Site::new();
    let config = "[tasks]\n[[nodes]]\nnames = \"n1\"\ngpu = \"a30-24gb\"\ncount = 2\nmig = \"on\"\n";
    std::fs::write(site.path().join("pool.toml"), config).unwrap();
    let layout = "n1 tessera gpu0=mig[1g.6gb@0:tasks[job12*3,job13*1],2g.12gb@2:tasks[job13*2>job20]] gpu1=tasks[job14*4]\n";
    std::fs::write(site.path().join("pool.layout"), layout).unwrap();
    site.run(&[&["--config", "pool.toml"], args].concat())
}

#[test]
fn a_layout_shows_seats_and_claims() {
    assert_snapshot!(run(&["layout", "--from", "pool.layout"]), @r"
    n1: 2 x a30-24gb, links pcie
    GPU 0 │ 1g.6gb          │                 │ 2g.12gb                           │
          │ tasks 12 13     │ free            │ tasks 13 (2 seats), then job 20   │
    GPU 1 │ tasks 14 (4 seats)                                                    │

    without jobs: 0 of 2 GPUs, 0 of 1 nodes
    lost to fragmentation: nothing
    exit 0
    ");
}

#[test]
fn an_explanation_says_why_a_device_is_not_joined() {
    let busy = "tessera gpu0=mig[1g.6gb@0:tasks[job12*3,job13*1],1g.6gb@1:tasks[job13*2>job20],2g.12gb@2:job9] gpu1=free";
    let ask = ["explain", "--gpu-isolation=gpu-tasks", "--gpu-mem=3G", "--ntasks-per-node=2", "--busy", busy];
    assert_snapshot!(run(&ask), @r"
    n1: 2 seats on 1g.6gb at memory slice 0 of GPU 1: the first in the pool there
      weighed: loses 3 placements, opens an unused GPU
    counts in Slurm as gres/shard:2 per node
    memory: 3.0 GB for each process (library, cooperative)
      gpu-tasks 1 of 4 memory slices, chosen
        GPU 0
          1g.6gb at 1: no: claimed by job 20, which gets it next
          no: 0 seats free, 2 asked
          2g.12gb at 2: no: isolated for job 9
          1g.6gb at 0: no: taken by job 12
          1g.6gb at 1: no: taken by job 13
          1g.6gb at 2: no: taken by job 9
          1g.6gb at 3: no: taken by job 9
        GPU 1
         *1g.6gb at 0: to be opened, loses 3 placements, opens an unused GPU
          1g.6gb at 1: to be opened, loses 3 placements, opens an unused GPU
          1g.6gb at 2: to be opened, loses 3 placements, opens an unused GPU
          1g.6gb at 3: to be opened, loses 3 placements, opens an unused GPU
    exit 0
    ");
}

#[test]
fn a_site_without_a_pool_refuses() {
    let out = Site::new().run(&["explain", "--node", "n1", "--gpu-isolation=gpu-tasks"]);
    assert!(out.contains("this site has no pool of GPU tasks ([tasks] in tessera.toml)"), "{out}");
}
