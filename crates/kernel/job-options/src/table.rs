//! The options' names, variables and help.

/// An option, in the order of [`Spec::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Opt {
    /// `--gpu-isolation`
    Isolation,
    /// `--gpu-mem`
    Mem,
    /// `--gpu-instances`
    Instances,
    /// `--gpu-sms`
    Sms,
    /// `--gpu-pattern`
    Pattern,
    /// `--gpu-bandwidth`
    Bandwidth,
    /// `--gpu-set-policy`
    SetPolicy,
    /// `--gpu-wait`
    Wait,
    /// `--gpu-times`
    Times,
    /// `--gpu-app`
    App,
    /// `--gpu-place`
    Place,
    /// `--gpu-power`
    Power,
}

/// Description of an option for users.
#[derive(Debug)]
pub struct Spec {
    /// The option that this row describes.
    pub opt: Opt,
    /// Long option without dashes; a site may rename it.
    pub name: &'static str,
    /// Environment variable that stands for the option; never renamed.
    pub env: &'static str,
    /// A word for the argument in `--help`. Slurm starts a new line when name and word exceed 30 columns.
    pub arginfo: &'static str,
    /// Help text. Slurm wraps it at the terminal's width.
    pub usage: &'static str,
}

impl Spec {
    /// All options, in the order of `--help`.
    pub const ALL: [Spec; 12] = [
        Spec {
            opt: Opt::Isolation,
            name: "gpu-isolation",
            env: "TESSERA_GPU_ISOLATION",
            arginfo: "kind",
            usage: "[tessera] narrows the choice to mig, mig:PROFILE, mps, gpu-tasks, whole or slurm (default: auto if --gpu-mem is given)",
        },
        Spec {
            opt: Opt::Mem,
            name: "gpu-mem",
            env: "TESSERA_GPU_MEM",
            arginfo: "size",
            usage: "[tessera] GPU memory that the job needs, such as 10G: it gets the smallest piece of a GPU with that much \
                    memory (counted per MIG instance; per node for an mps share; per process for gpu-tasks)",
        },
        Spec {
            opt: Opt::Instances,
            name: "gpu-instances",
            env: "TESSERA_GPU_INSTANCES",
            arginfo: "n",
            usage: "[tessera] MIG instances per node (default: 1); 1/task is one for each Slurm task",
        },
        Spec {
            opt: Opt::Sms,
            name: "gpu-sms",
            env: "TESSERA_GPU_SMS",
            arginfo: "percent",
            usage: "[tessera] least part of a GPU's multiprocessors: see man tessera-options",
        },
        Spec {
            opt: Opt::Pattern,
            name: "gpu-pattern",
            env: "TESSERA_GPU_PATTERN",
            arginfo: "shape",
            usage: "[tessera] how whole GPUs talk to each other: ring, tree, chain, star, all, none or ring+tree",
        },
        Spec {
            opt: Opt::Bandwidth,
            name: "gpu-bandwidth",
            env: "TESSERA_GPU_BANDWIDTH",
            arginfo: "need",
            usage: "[tessera] sensitive or insensitive: see man tessera-options",
        },
        Spec {
            opt: Opt::SetPolicy,
            name: "gpu-set-policy",
            env: "TESSERA_GPU_SET_POLICY",
            arginfo: "policy",
            usage: "[tessera] choice among sets: see man tessera-options",
        },
        Spec {
            opt: Opt::Wait,
            name: "gpu-wait",
            env: "TESSERA_GPU_WAIT",
            arginfo: "gbps,time",
            usage: "[tessera] wait for faster links: see man tessera-options",
        },
        Spec {
            opt: Opt::Times,
            name: "gpu-times",
            env: "TESSERA_GPU_TIMES",
            arginfo: "list",
            usage: "[tessera] run times per size: see man tessera-options",
        },
        Spec {
            opt: Opt::App,
            name: "gpu-app",
            env: "TESSERA_GPU_APP",
            arginfo: "name",
            usage: "[tessera] application: see man tessera-options",
        },
        Spec {
            opt: Opt::Place,
            name: "gpu-place",
            env: "TESSERA_GPU_PLACE",
            arginfo: "gpu@start",
            usage: "[tessera] one place for the instance: see man tessera-options",
        },
        Spec {
            opt: Opt::Power,
            name: "gpu-power",
            env: "TESSERA_GPU_POWER",
            arginfo: "watts",
            usage: "[tessera] most watts that each of the job's GPUs may draw, such as 200",
        },
    ];

    /// Names that two of the options had before 0.1. They are taken as before.
    pub const OLD: [Spec; 2] = [
        Spec {
            opt: Opt::Sms,
            name: "gpu-threads",
            env: "TESSERA_GPU_THREADS",
            arginfo: "percent",
            usage: "[tessera] old name of --gpu-sms",
        },
        Spec {
            opt: Opt::App,
            name: "gpu-profile",
            env: "TESSERA_GPU_PROFILE",
            arginfo: "name",
            usage: "[tessera] old name of --gpu-app",
        },
    ];

    /// The option that the site's configuration calls `name`, by its present or its old name.
    pub fn by_name(name: &str) -> Option<&'static Spec> {
        Self::all_and_old().find(|s| s.name == name)
    }

    /// The option at this position of [`Self::all_and_old`], which is the number Slurm hands back to the callback.
    pub fn by_position(position: usize) -> Option<&'static Spec> {
        Self::all_and_old().nth(position)
    }

    /// All options, then those of old names.
    pub fn all_and_old() -> impl Iterator<Item = &'static Spec> {
        const ALL: &[Spec] = &Spec::ALL;
        const OLD: &[Spec] = &Spec::OLD;
        ALL.iter().chain(OLD)
    }

    /// True for a row of [`Self::OLD`].
    #[must_use]
    pub fn is_old(&self) -> bool {
        self.name != self.opt.spec().name
    }
}

impl Opt {
    /// The option's row of [`Spec::ALL`].
    pub fn spec(self) -> &'static Spec {
        const ALL: &[Spec] = &Spec::ALL;
        // A unit test checks that the rows stand in the order of the enum.
        &ALL[self as usize]
    }
}
