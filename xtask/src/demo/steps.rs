//! The demo's steps, in order.

use std::collections::BTreeSet;
use std::time::Duration;

use error_chain::with_causes;
use lab::{Cluster, HarnessError, User};

use super::held::{DemoJob, gpus, instances, variable, visible};
use super::short;
use super::show::Show;

/// A set-up of jobs that run side by side, each with what it saw.
type RunningJobs = Vec<(DemoJob, String)>;

pub(super) fn all(cluster: &Cluster, show: &mut Show) -> Result<(), HarnessError> {
    show.title("Three nodes: a DGX-1V (8 x V100 16GB), 4 x H100 80GB, 2 x A100 40GB. Nothing is cut yet");
    layouts(cluster, show)?;

    // No user has two jobs on one node here: what a job's device nodes allow is what its user may use, so each would
    // list the other's instance too.
    let mut running =
        vec![whole(cluster, show)?, auto(cluster, show)?, two_tasks(cluster, show)?, profile(cluster, show)?];
    no_two_jobs_share_an_instance(&running, show);

    show.title("All of them at once");
    layouts(cluster, show)?;
    picture(cluster, show)?;

    idle_instance(cluster, show, running.pop())?;
    running.extend(shares(cluster, show)?);
    layouts(cluster, show)?;
    for (job, _) in running.drain(1..3) {
        job.release(cluster)?;
        cluster.wait_end(job.id)?;
    }
    running.extend(must_wait(cluster, show)?);

    show.title("All jobs end, and everything is given back");
    for (job, _) in &running {
        job.release(cluster)?;
    }
    for (job, _) in &running {
        let ended = cluster.wait_end(job.id)?;
        if ended.state() != "COMPLETED" {
            show.check(false, format!("job {} completes (it is {})", job.id, ended.state()));
        }
    }
    cluster.wait_idle()?;
    layouts(cluster, show)?;
    clean(cluster, show)
}

/// Submits, waits until the job has looked, and shows question and answer.
fn job(
    cluster: &Cluster,
    show: &mut Show,
    user: User,
    options: &[&str],
    per_task: bool,
) -> Result<(DemoJob, String), HarnessError> {
    show.typed(short(user), &format!("sbatch {} job.sh", options.join(" ")));
    let held = DemoJob::submit(cluster, user, options, per_task)?;
    let saw = held.looked(cluster)?;
    show.block(&saw);
    for line in placed(cluster, &held)? {
        show.say(format!("  job {} has {line}", held.id));
    }
    Ok((held, saw))
}

/// Finds the job in the layouts that the controller publishes.
fn placed(cluster: &Cluster, held: &DemoJob) -> Result<Vec<String>, HarnessError> {
    let mark = format!("job{}", held.id);
    let holds = |part: &str| part.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == mark);
    let mut found = Vec::new();
    for (node, layout) in cluster.published_layouts()? {
        // Entries are separated by blanks, and so are the words of a share: split at the next GPU.
        for gpu in layout.split(" gpu").skip(1).filter(|gpu| holds(gpu)) {
            found.push(format!("{node} gpu{gpu}"));
        }
    }
    Ok(found)
}

fn whole(cluster: &Cluster, show: &mut Show) -> Result<(DemoJob, String), HarnessError> {
    show.title("Three whole GPUs: the best-linked set, not the first three");
    let options = ["--gpu-isolation=whole", "--gpus-per-node=3", "--nodelist=n1"];
    let (held, saw) = job(cluster, show, User::Alice, &options, false)?;
    show.check(gpus(&saw) == 3 && instances(&saw).is_empty(), "nvidia-smi lists three GPUs and no instance");
    let set: Vec<String> = cluster.gpus_of(held.id)?.iter().map(u32::to_string).collect();
    show.check(set != ["0", "1", "2"], format!("the set is {}, not 0,1,2", set.join(",")));
    let links = cluster.links_within("n1", &cluster.gpus_of(held.id)?)?;
    show.check(links == 5, format!("its GPUs have {links} NVLinks among them; 5 is the most three can have"));
    Ok((held, saw))
}

fn auto(cluster: &Cluster, show: &mut Show) -> Result<(DemoJob, String), HarnessError> {
    show.title("10 GB of GPU memory: the smallest piece that has it");
    let (held, saw) = job(cluster, show, User::Alice, &["--gpu-mem=10G", "--nodelist=n2"], false)?;
    let own = instances(&saw);
    show.check(own.len() == 1, "nvidia-smi lists one instance");
    let large_enough = own.iter().all(|(profile, _)| profile.ends_with(".10gb"));
    show.check(large_enough, "it is the smallest that holds 10 GB");
    sees_only_its_own(&saw, show);
    Ok((held, saw))
}

fn profile(cluster: &Cluster, show: &mut Show) -> Result<(DemoJob, String), HarnessError> {
    show.title("Exactly this profile");
    let options = ["--gpu-isolation=mig:2g.10gb", "--nodelist=n3"];
    let (held, saw) = job(cluster, show, User::Bob, &options, false)?;
    let own: Vec<String> = instances(&saw).into_iter().map(|(profile, _)| profile).collect();
    show.check(own == ["2g.10gb"], "nvidia-smi lists one 2g.10gb");
    sees_only_its_own(&saw, show);
    Ok((held, saw))
}

fn two_tasks(cluster: &Cluster, show: &mut Show) -> Result<(DemoJob, String), HarnessError> {
    show.title("Two instances, two tasks: each task has its own");
    let options = ["--gpu-isolation=mig", "--gpu-instances=2", "--ntasks=2", "--nodelist=n2"];
    let (held, saw) = job(cluster, show, User::Bob, &options, true)?;
    let of_task = |task: &str| -> String {
        let lines = saw.lines().filter_map(|line| line.trim_start().strip_prefix(task));
        lines.collect::<Vec<_>>().join("\n")
    };
    let (first, second) = (visible(&of_task("0: ")), visible(&of_task("1: ")));
    show.check(first.len() == 1 && second.len() == 1, "CUDA sees one instance in each task");
    show.check(first.is_disjoint(&second), "and they are different ones");
    Ok((held, saw))
}

/// The job with an instance on n3 ends; the instance stays for the next one of its shape.
fn idle_instance(
    cluster: &Cluster,
    show: &mut Show,
    job: Option<(DemoJob, String)>,
) -> Result<(), HarnessError> {
    let Some((held, _)) = job else { return Ok(()) };
    show.title("A job ends: its instance is kept, idle, for the next job of that shape");
    held.release(cluster)?;
    cluster.wait_end(held.id)?;
    let kept = lab::command::wait_for("the idle instance", Duration::from_secs(10), || {
        let layouts = cluster.published_layouts().map_err(|error| with_causes(&error))?;
        let idle = layouts.iter().any(|(_, layout)| layout.contains(":idle"));
        if idle { Ok(()) } else { Err(format!("{layouts:?}")) }
    });
    layouts(cluster, show)?;
    show.check(kept.is_ok(), format!("job {} is gone and its 2g.10gb is idle", held.id));
    Ok(())
}

fn shares(cluster: &Cluster, show: &mut Show) -> Result<RunningJobs, HarnessError> {
    show.title("Two shares of one GPU, by MPS, with a cooperative memory limit");
    let options = ["--gpu-isolation=mps", "--gpu-mem=6G", "--gpu-sms=25%", "--nodelist=n1"];
    let first = job(cluster, show, User::Bob, &options, false)?;
    let second = job(cluster, show, User::Bob, &options, false)?;
    for (_, saw) in [&first, &second] {
        show.check(
            variable(saw, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT").is_some(),
            "the job's memory is limited",
        );
        let threads = variable(saw, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
        show.check(threads == Some("25"), "it may use 25 % of the SMs");
    }
    let pipe = |saw: &str| variable(saw, "CUDA_MPS_PIPE_DIRECTORY").map(str::to_owned);
    let same = pipe(&first.1).is_some() && pipe(&first.1) == pipe(&second.1);
    show.check(same, "both speak to the same MPS daemon, so they share one GPU");
    Ok(vec![first, second])
}

fn must_wait(cluster: &Cluster, show: &mut Show) -> Result<RunningJobs, HarnessError> {
    show.title("A node without a free slice: the job waits, and starts when it can");
    let all = ["--gpu-isolation=mig:7g.80gb", "--nodelist=n2"];
    let mut running = RunningJobs::new();
    for _ in 0..4 {
        show.typed("alice", &format!("sbatch {} job.sh", all.join(" ")));
        let held = DemoJob::submit(cluster, User::Alice, &all, false)?;
        let saw = held.looked(cluster)?;
        running.push((held, saw));
    }
    let small = ["--gpu-isolation=mig:1g.10gb", "--nodelist=n2"];
    show.typed("bob", &format!("sbatch {} job.sh", small.join(" ")));
    let waiting = DemoJob::submit(cluster, User::Bob, &small, false)?;
    let waited = cluster.wait_job(waiting.id, "waiting for resources", |job| {
        job.state() == "PENDING" && job.reason() == "Resources"
    });
    show.typed("root", "squeue");
    let queue = cluster.run(User::Root, "squeue", &["-o", "%.6i %.14u %.10T %.10M %R"])?.ok()?;
    show.block(&queue);
    show.check(waited.is_ok(), format!("job {} waits with reason Resources", waiting.id));
    let (first, _) = running.remove(0);
    show.say(format!("job {} ends:", first.id));
    first.release(cluster)?;
    let saw = waiting.looked(cluster)?;
    show.block(&saw);
    show.check(instances(&saw).len() == 1, format!("job {} runs and has its instance", waiting.id));
    running.push((waiting, saw));
    layouts(cluster, show)?;
    Ok(running)
}

/// A job's `nvidia-smi -L` and its `CUDA_VISIBLE_DEVICES` name the same instances.
fn sees_only_its_own(saw: &str, show: &mut Show) {
    let listed: BTreeSet<String> = instances(saw).into_iter().map(|(_, uuid)| uuid).collect();
    show.check(
        listed == visible(saw),
        "nvidia-smi lists what CUDA_VISIBLE_DEVICES names, and no other job's",
    );
}

fn no_two_jobs_share_an_instance(running: &RunningJobs, show: &mut Show) {
    // A task of the two-task job sees both of its job's instances: each counts once per job.
    let per_job =
        running.iter().map(|(_, saw)| instances(saw).into_iter().map(|(_, u)| u).collect::<BTreeSet<_>>());
    let all: Vec<String> = per_job.flatten().collect();
    let distinct: BTreeSet<&String> = all.iter().collect();
    show.check(all.len() == distinct.len(), format!("{} instances, none seen by two jobs", all.len()));
}

fn layouts(cluster: &Cluster, show: &Show) -> Result<(), HarnessError> {
    show.typed("root", "sinfo -O nodelist,extra | sed 's/ node=.*//'");
    let out = cluster.run(User::Root, "sinfo", &["-N", "-O", "nodelist:10,extra:2000"])?.ok()?;
    let trimmed: Vec<&str> =
        out.lines().map(|line| line.split(" node=").next().unwrap_or_default().trim_end()).collect();
    show.block(&trimmed.join("\n"));
    Ok(())
}

fn picture(cluster: &Cluster, show: &mut Show) -> Result<(), HarnessError> {
    show.typed("root", "tessera layout");
    let done = cluster.run(User::Root, "tessera", &["layout"])?;
    show.block(&done.stdout);
    show.check(done.code == Some(0), format!("tessera layout draws it {}", done.stderr.trim()));
    Ok(())
}

fn clean(cluster: &Cluster, show: &mut Show) -> Result<(), HarnessError> {
    for node in cluster.nodes() {
        show.typed("root", &format!("tessera doctor    # on {node}"));
        let done = lab::command::run(cluster.command_on(node, User::Root, "tessera")?.arg("doctor"))?;
        show.block(&done.stdout);
        show.block(&done.stderr);
        show.check(done.code == Some(0), format!("journal, driver, device nodes and Slurm agree on {node}"));
    }
    let left = cluster.leftovers()?;
    show.check(left.is_empty(), format!("no MPS daemon and no journal entry is left {}", left.join(", ")));
    Ok(())
}
