//! What every end-to-end test begins with.

#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, OnceLock};

use e2e::{Builder, Cluster, User};

/// A builder whose cluster ends with the test's process, however that ends.
pub(crate) fn builder() -> Builder {
    Cluster::builder().guardian(vec![env!("CARGO_BIN_EXE_cluster-guard").to_owned()])
}

/// The cluster that the tests of one file share, one test at a time. The guardian ends it.
static SHARED: OnceLock<Mutex<Cluster>> = OnceLock::new();

/// Runs `test` on the file's cluster, from the example files, with no job on it; afterwards all its jobs are
/// cancelled, and the nodes must be clean.
pub(crate) fn with(test: impl FnOnce(&mut Cluster)) {
    let shared = SHARED.get_or_init(|| match builder().start() {
        Ok(cluster) => Mutex::new(cluster),
        Err(error) => panic!("{error}"),
    });
    // A failed test before this one has cleaned up behind itself as well.
    let mut cluster = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let outcome = catch_unwind(AssertUnwindSafe(|| test(&mut cluster)));
    if let Err(panic) = outcome {
        cluster.keep_files();
        eprintln!("{}", cluster.log_tails());
        eprintln!("all logs stay in {}", cluster.layout().at("log").display());
        let _ = settle(&cluster);
        resume_unwind(panic);
    }
    if let Err(error) = settle(&cluster).and_then(|()| cluster.assert_clean()) {
        cluster.keep_files();
        panic!("after the test: {error}\n{}", cluster.log_tails());
    }
}

/// Cancels every job and waits until the nodes are idle.
fn settle(cluster: &Cluster) -> Result<(), e2e::HarnessError> {
    for user in [User::Alice, User::Bob] {
        cluster.run(User::Root, "scancel", &["-u", user.name()])?;
    }
    cluster.wait_idle()
}

/// A script that says what it sees and then runs until it is cancelled.
pub(crate) const LOOK_AND_STAY: &str = "echo CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES\nnvidia-smi -L\nenv | grep ^CUDA_MPS | sort\necho looked\nexec sleep 600";

/// The same, but it ends.
pub(crate) const LOOK: &str = "echo CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES\nnvidia-smi -L\nenv | grep ^CUDA_MPS | sort\necho looked";

/// MIG devices in the output of `nvidia-smi -L`: profile and UUID.
pub(crate) fn instances(text: &str) -> Vec<(String, String)> {
    let parse = |line: &str| {
        let (_, rest) = line.split_once("MIG ")?;
        let profile = rest.split_whitespace().next()?.to_owned();
        let uuid = line.split_once("(UUID: ")?.1.split(')').next()?.to_owned();
        uuid.starts_with("MIG-").then_some((profile, uuid))
    };
    text.lines().filter_map(parse).collect()
}

/// Just the profiles.
pub(crate) fn profiles(text: &str) -> Vec<String> {
    instances(text).into_iter().map(|(profile, _)| profile).collect()
}

/// A variable the job printed.
pub(crate) fn variable(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

/// Waits until a running job of [`LOOK_AND_STAY`] has said what it sees.
pub(crate) fn looked(cluster: &Cluster, job: e2e::JobId) -> String {
    let wait = e2e::command::wait_for(
        &format!("job {job} to look at its GPUs"),
        std::time::Duration::from_secs(60),
        || {
            let text = cluster.output(job);
            if text.contains("looked\n") { Ok(text) } else { Err(text) }
        },
    );
    match wait {
        Ok(text) => text,
        Err(error) => panic!("{error}; {:?}", cluster.job(job)),
    }
}
