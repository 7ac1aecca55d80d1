//! Kinds of jobs, each with the most similar request that Slurm alone accepts.

use lab::User;

/// A kind of job.
pub(super) struct JobKind {
    /// As people say it.
    pub(super) name: &'static str,
    /// Options under Tessera.
    pub(super) ours: &'static [&'static str],
    /// Options under Slurm alone: as many shards as Tessera's admission asks for, or as many GPUs.
    pub(super) stock: &'static [&'static str],
}

const fn kind(name: &'static str, ours: &'static [&'static str], stock: &'static [&'static str]) -> JobKind {
    JobKind { name, ours, stock }
}

/// Kinds of jobs in a stream.
pub(super) const MIX: [JobKind; 16] = [
    kind("mig:1g.5gb", &["--gpu-isolation=mig:1g.5gb"], &["--gres=shard:5"]),
    kind("mig:2g.10gb", &["--gpu-isolation=mig:2g.10gb"], &["--gres=shard:10"]),
    kind("mig:3g.20gb", &["--gpu-isolation=mig:3g.20gb"], &["--gres=shard:20"]),
    kind("mig:7g.40gb", &["--gpu-isolation=mig:7g.40gb"], &["--gres=shard:40"]),
    kind("mig:1g.10gb", &["--gpu-isolation=mig:1g.10gb"], &["--gres=shard:10"]),
    kind("mig:3g.40gb", &["--gpu-isolation=mig:3g.40gb"], &["--gres=shard:40"]),
    kind("mig, 4 GB", &["--gpu-isolation=mig", "--gpu-mem=4G"], &["--gres=shard:5"]),
    kind(
        "mig, twice 4 GB",
        &["--gpu-isolation=mig", "--gpu-mem=4G", "--gpu-instances=2"],
        &["--gres=shard:10"],
    ),
    kind("mps, 3 GB", &["--gpu-isolation=mps", "--gpu-mem=3G", "--gpu-sms=25"], &["--gres=shard:3"]),
    kind("mps, 10 GB", &["--gpu-isolation=mps", "--gpu-mem=10G", "--gpu-sms=50"], &["--gres=shard:10"]),
    kind("one whole GPU", &["--gpu-isolation=whole", "--gpus-per-node=1"], &["--gres=gpu:1"]),
    kind("two whole GPUs", &["--gpu-isolation=whole", "--gpus-per-node=2"], &["--gres=gpu:2"]),
    kind("auto, 10 GB", &["--gpu-mem=10G"], &["--gres=shard:10"]),
    kind("auto, 30 GB", &["--gpu-mem=30G"], &["--gres=shard:40"]),
    kind("--gres=gpu:1", &["--gres=gpu:1"], &["--gres=gpu:1"]),
    kind("--gres=gpu:2", &["--gres=gpu:2"], &["--gres=gpu:2"]),
];

/// Requests of users of stock Slurm: none of our options.
pub(super) const PLAIN: [JobKind; 4] = [
    kind("no GPU", &["-n1"], &["-n1"]),
    kind("no GPU, two tasks", &["-n2"], &["-n2"]),
    kind("--gres=gpu:1", &["--gres=gpu:1"], &["--gres=gpu:1"]),
    kind("--gres=gpu:2", &["--gres=gpu:2"], &["--gres=gpu:2"]),
];

/// Kinds that `start` and `prolog` measure, one after the other in each round: the MIG kinds have one GPU of n1 to
/// themselves, so that each finds what the one before it left there.
///
/// A kind with a power cap follows the same one without. `tasks` and `mps` are measured alike, on the same node: the first job of
/// a GPU, and one that joins a holder's.
pub(super) const SINGLE: [(User, JobKind); 11] = [
    (User::Alice, kind("--gres=gpu:1", &["-w", "n2", "--gres=gpu:1"], &["-w", "n2", "--gres=gpu:1"])),
    (
        User::Alice,
        kind(
            "whole",
            &["-w", "n2", "--gpu-isolation=whole", "--gpus-per-node=1"],
            &["-w", "n2", "--gres=gpu:1"],
        ),
    ),
    (
        User::Alice,
        kind(
            "whole, at 300 W",
            &["-w", "n2", "--gpu-isolation=whole", "--gpus-per-node=1", "--gpu-power=300"],
            &["-w", "n2", "--gres=gpu:1"],
        ),
    ),
    (
        User::Alice,
        kind(
            "mig: one destroyed, one created",
            &["-w", "n1", "--gpu-isolation=mig:1g.5gb"],
            &["-w", "n1", "--gres=shard:5"],
        ),
    ),
    (
        User::Alice,
        kind(
            "mig: one created",
            &["-w", "n1", "--gpu-isolation=mig:2g.10gb"],
            &["-w", "n1", "--gres=shard:10"],
        ),
    ),
    (
        User::Alice,
        kind(
            "mig: an idle one used again",
            &["-w", "n1", "--gpu-isolation=mig:2g.10gb"],
            &["-w", "n1", "--gres=shard:10"],
        ),
    ),
    (
        User::Alice,
        kind(
            "mig: two destroyed, one created",
            &["-w", "n1", "--gpu-isolation=mig:7g.40gb"],
            &["-w", "n1", "--gres=shard:40"],
        ),
    ),
    (
        User::Bob,
        kind(
            "mps: the first of a GPU",
            &["-w", "n2", "--gpu-isolation=mps", "--gpu-mem=9G", "--gpu-sms=25"],
            &["-w", "n2", "--gres=shard:9"],
        ),
    ),
    (
        User::Alice,
        kind(
            "mps: joining",
            &["-w", "n2", "--gpu-isolation=mps", "--gpu-mem=3G", "--gpu-sms=25"],
            &["-w", "n2", "--gres=shard:3"],
        ),
    ),
    (
        User::Bob,
        kind(
            "tasks: the first of a GPU",
            &["-w", "n2", "--gpu-isolation=gpu-tasks:probes", "--gpu-mem=9G"],
            &["-w", "n2", "--gres=shard:1"],
        ),
    ),
    (
        User::Alice,
        kind(
            "tasks: joining",
            &["-w", "n2", "--gpu-isolation=gpu-tasks:probes", "--gpu-mem=3G"],
            &["-w", "n2", "--gres=shard:1"],
        ),
    ),
];
