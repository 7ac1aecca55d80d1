//! Kinds of jobs, each with what Tessera promises to it.

/// A kind of job.
#[derive(Debug)]
pub(in crate::chaos) struct OrderKind {
    /// As people say it.
    pub(in crate::chaos) name: &'static str,
    /// Options of sbatch.
    pub(in crate::chaos) options: &'static [&'static str],
    /// Grant that its batch script gets.
    pub(in crate::chaos) promise: Promise,
    /// Step that it also runs, one task per node or as many as it asks for.
    pub(in crate::chaos) step: Option<Promise>,
}

/// Devices that a task of a job must have on its node, no less and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum Promise {
    /// No GPU.
    Nothing,
    /// So many MIG instances.
    Instances(usize, Size),
    /// A compute instance of this profile, in a GPU instance that one user's jobs may share, and what its job says of its
    /// memory there, in GB.
    Part(&'static str, u32),
    /// Seats among devices that GPU tasks share; whether the library is preloaded.
    Seats { preloaded: bool },
    /// A share of one device under MPS, with these limits.
    Share { mem_mib: u64, threads: Option<u32> },
    /// So many whole GPUs.
    Whole(usize),
    /// All GPUs of the node.
    Everything,
    /// An instance, a share or a GPU with at least this much memory, in GB.
    Memory(u32),
}

impl Promise {
    /// The memory that a job states for its compute instance, in GB.
    pub(in crate::chaos) fn part_gb(self) -> Option<u32> {
        match self {
            Self::Part(_, gb) => Some(gb),
            _ => None,
        }
    }
}

/// Size of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum Size {
    /// An instance of this profile.
    Profile(&'static str),
    /// With at least this much memory, in GB.
    Memory(u32),
    /// With one of these numbers of compute slices.
    Slices(&'static [u32]),
}

const fn kind(name: &'static str, options: &'static [&'static str], promise: Promise) -> OrderKind {
    OrderKind { name, options, promise, step: None }
}

const fn stepped(
    name: &'static str,
    options: &'static [&'static str],
    promise: Promise,
    step: Promise,
) -> OrderKind {
    OrderKind { name, options, promise, step: Some(step) }
}

const fn one(profile: &'static str) -> Promise {
    Promise::Instances(1, Size::Profile(profile))
}

/// A compute instance, by the profile that it is called after.
const fn part(profile: &'static str, options: &'static [&'static str], gb: u32) -> OrderKind {
    let profile_alone = profile.split_at("mig:".len()).1;
    kind(profile, options, Promise::Part(profile_alone, gb))
}

const UNMODIFIED: Promise = Promise::Seats { preloaded: true };
const PROBED: Promise = Promise::Seats { preloaded: false };

/// 3 GB are 2862 MiB, rounded up; 10 GB are 9537.
const SHARE_3G: Promise = Promise::Share { mem_mib: 2862, threads: Some(25) };
const SHARE_10G: Promise = Promise::Share { mem_mib: 9537, threads: Some(50) };

/// Every kind of job that a user can submit. Some have a power cap: all limits must be as found in the end.
pub(in crate::chaos) const KINDS: [OrderKind; 39] = [
    kind("mig:1g.5gb", &["--gpu-isolation=mig:1g.5gb"], one("1g.5gb")),
    kind("mig:2g.10gb", &["--gpu-isolation=mig:2g.10gb", "--gpu-power=200"], one("2g.10gb")),
    kind("mig:3g.20gb", &["--gpu-isolation=mig:3g.20gb"], one("3g.20gb")),
    kind("mig:7g.40gb", &["--gpu-isolation=mig:7g.40gb"], one("7g.40gb")),
    kind("mig:1g.10gb", &["--gpu-isolation=mig:1g.10gb"], one("1g.10gb")),
    kind("mig:3g.40gb", &["--gpu-isolation=mig:3g.40gb"], one("3g.40gb")),
    kind("mig:7g.80gb", &["--gpu-isolation=mig:7g.80gb"], one("7g.80gb")),
    kind("mig of 4 GB", &["--gpu-isolation=mig", "--gpu-mem=4G"], Promise::Instances(1, Size::Memory(4))),
    kind("mig of 15 GB", &["--gpu-isolation=mig", "--gpu-mem=15G"], Promise::Instances(1, Size::Memory(15))),
    kind(
        "two instances of 4 GB",
        &["--gpu-isolation=mig", "--gpu-mem=4G", "--gpu-instances=2"],
        Promise::Instances(2, Size::Memory(4)),
    ),
    stepped(
        "three instances, a task each",
        &["-N1", "-n3", "--gpu-isolation=mig:1g.5gb", "--gpu-instances=3"],
        Promise::Instances(3, Size::Profile("1g.5gb")),
        one("1g.5gb"),
    ),
    stepped(
        "four instances on two GPUs, a task each",
        &["-N1", "-n4", "--gpu-isolation=mig:3g.20gb", "--gpu-instances=4"],
        Promise::Instances(4, Size::Profile("3g.20gb")),
        one("3g.20gb"),
    ),
    stepped(
        "mig:1g.10gb on two nodes",
        &["-N2", "--gpu-isolation=mig:1g.10gb"],
        one("1g.10gb"),
        one("1g.10gb"),
    ),
    part(
        "mig:4c.7g.40gb",
        &["--gpu-isolation=mig-shared:4c.7g.40gb", "--gpu-mem=20G", "--gpu-power=220"],
        20,
    ),
    // No room beside a 4c.7g.40gb: 45 GB.
    part("mig:3c.7g.40gb", &["--gpu-isolation=mig-shared:3c.7g.40gb", "--gpu-mem=25G"], 25),
    part("mig:2c.7g.80gb", &["--gpu-isolation=mig-shared:2c.7g.80gb", "--gpu-mem=20G"], 20),
    part("mig:1c.3g.20gb", &["--gpu-isolation=mig-shared:1c.3g.20gb", "--gpu-mem=5G"], 5),
    kind("tasks of 3 GB", &["--gpu-isolation=gpu-tasks", "--gpu-mem=3G"], UNMODIFIED),
    stepped(
        "tasks of 2 GB, two seats",
        &["-N1", "-n2", "--gpu-isolation=gpu-tasks", "--gpu-mem=2G"],
        UNMODIFIED,
        UNMODIFIED,
    ),
    kind("tasks:probes", &["--gpu-isolation=gpu-tasks:probes"], PROBED),
    stepped("tasks:probes on two nodes", &["-N2", "--gpu-isolation=gpu-tasks:probes"], PROBED, PROBED),
    kind(
        "mps of 3 GB",
        &["--gpu-isolation=mps", "--gpu-mem=3G", "--gpu-sms=25", "--gpu-power=210"],
        SHARE_3G,
    ),
    kind("mps of 10 GB", &["--gpu-isolation=mps", "--gpu-mem=10G", "--gpu-sms=50"], SHARE_10G),
    stepped(
        "mps of 3 GB on two nodes",
        &["-N2", "--gpu-isolation=mps", "--gpu-mem=3G", "--gpu-sms=25"],
        SHARE_3G,
        SHARE_3G,
    ),
    kind("one whole GPU", &["--gpu-isolation=whole", "--gpus-per-node=1"], Promise::Whole(1)),
    kind(
        "two whole GPUs",
        &["--gpu-isolation=whole", "--gpus-per-node=2", "--gpu-power=250"],
        Promise::Whole(2),
    ),
    kind("a tree of four GPUs", &["--gpus-per-node=4", "--gpu-pattern=tree"], Promise::Whole(4)),
    kind("two insensitive GPUs", &["--gpus-per-node=2", "--gpu-bandwidth=insensitive"], Promise::Whole(2)),
    kind(
        "two GPUs worth a wait",
        &["-w", "n1", "--gpus-per-node=2", "--gpu-wait=45GB/s,15s"],
        Promise::Whole(2),
    ),
    kind("auto of 10 GB", &["--gpu-mem=10G"], Promise::Memory(10)),
    kind("auto of 30 GB", &["--gpu-mem=30G"], Promise::Memory(30)),
    kind(
        "a moldable job",
        &["--gpu-times=1g:60s,2g:35s,3g:25s"],
        Promise::Instances(1, Size::Slices(&[1, 2, 3])),
    ),
    kind("--gres=gpu:1", &["--gres=gpu:1"], Promise::Whole(1)),
    kind("--gres=gpu:3", &["--gres=gpu:3"], Promise::Whole(3)),
    stepped("--gres=gpu:1 on two nodes", &["-N2", "--gres=gpu:1"], Promise::Whole(1), Promise::Whole(1)),
    stepped("--gpus-per-task=1", &["-N1", "-n2", "--gpus-per-task=1"], Promise::Whole(2), Promise::Whole(1)),
    kind("an array of three", &["--array=0-2", "--gpu-isolation=mig:1g.5gb"], one("1g.5gb")),
    kind("--exclusive", &["--exclusive", "--gres=gpu:1"], Promise::Everything),
    kind("no GPU", &["-c2"], Promise::Nothing),
];
