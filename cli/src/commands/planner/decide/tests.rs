use super::*;
use crate::slurm::squeue::QueuedJob;
use protocol::wire::parse_request;
use site_config::LearnFrom;

fn job(id: u32, user: &str, priority: u64, asks: &str) -> Pending {
    let asks = format!("v1 iso=mig {asks}");
    let job = QueuedJob {
        id,
        user: user.to_owned(),
        partition: "gpu".to_owned(),
        priority,
        n_nodes: "1".to_owned(),
        ..QueuedJob::default()
    };
    Pending { job, request: parse_request(&asks).unwrap(), asks }
}

fn gpu(node: &str, index: u16, model: &str) -> Gpu {
    let model = Model::find(model).unwrap();
    Gpu { model, now: PresentGpu::empty(node, index), partitions: vec!["gpu".to_owned()] }
}

fn decided(pending: &[Pending], gpus: Vec<Gpu>) -> Decided {
    decide(pending, gpus, &Learnt::nothing(LearnFrom::User), 1000)
}

fn all(decided: &Decided) -> Vec<(u32, String, String)> {
    let shown = |c: &Assignment| (c.job, c.size.clone(), format!("{}:{}", c.place.node, c.place.start));
    decided.batches.iter().flat_map(|(_, assignments)| assignments.iter().map(shown)).collect()
}

#[test]
fn two_jobs_that_scale_share_the_gpu_and_one_alone_has_it_all() {
    let times = "times=1g:900,3g:300,4g:250,7g:100";
    let one = decided(&[job(1, "a", 5, times)], vec![gpu("n1", 0, "a100-40gb")]);
    assert_eq!(all(&one), [(1, "7g.40gb".to_owned(), "n1:0@0".to_owned())]);
    let two = decided(&[job(1, "a", 5, times), job(2, "a", 4, times)], vec![gpu("n1", 0, "a100-40gb")]);
    let sizes: Vec<String> = all(&two).into_iter().map(|(_, size, _)| size).collect();
    assert_eq!(sizes, ["7g.40gb", "7g.40gb"], "2 x 100 s one after the other, not 300 s beside each other");
}

#[test]
fn a_later_standing_gets_what_the_earlier_one_leaves() {
    // Both want the whole GPU; bob's job has the higher priority, so it is first in time as well.
    let jobs = [job(1, "alice", 5, "times=7g:100"), job(2, "bob", 9, "times=7g:100")];
    let decided = decided(&jobs, vec![gpu("n1", 0, "a100-40gb")]);
    let begin = |user: &str| {
        let (_, assignments) = decided.batches.iter().find(|(s, _)| s.user == user).unwrap();
        assignments[0].begin / 1_000_000
    };
    assert_eq!((begin("bob"), begin("alice")), (0, 100));
}

#[test]
fn an_array_is_planned_by_its_next_task_and_keeps_the_places_of_the_others() {
    let mut array = job(1, "alice", 9, "times=7g:100");
    array.job.array = Some((1, "1-3".to_owned()));
    let after = job(2, "bob", 5, "times=7g:100");
    let begins = |array: &Pending| {
        let decided = decided(&[array.clone(), after.clone()], vec![gpu("n1", 0, "a100-40gb")]);
        assert_eq!(decided.left, []);
        let all = decided.batches.iter().flat_map(|(_, assignments)| assignments);
        all.map(|c| (c.job, c.begin / 1_000_000)).collect::<Vec<_>>()
    };
    assert_eq!(begins(&array), [(1, 0), (2, 300)]);
    // It lets one task run at a time, so that the others come later in any case.
    array.job.array = Some((1, "1-3%1".to_owned()));
    assert_eq!(begins(&array), [(1, 0), (2, 100)]);
    array.job.array = Some((1, "0-4000000000".to_owned()));
    assert_eq!(begins(&array), [(1, 0), (2, 6400)]);
}

#[test]
fn jobs_go_to_the_model_with_less_to_do() {
    let gpus = || vec![gpu("n1", 0, "a100-40gb"), gpu("n2", 0, "h100-80gb-sxm")];
    let jobs: Vec<Pending> = (1..=4).map(|id| job(id, "a", 9, "times=7g:100")).collect();
    let shared = all(&decided(&jobs, gpus()));
    assert_eq!(shared.iter().filter(|(_, size, _)| size == "7g.40gb").count(), 2, "{shared:?}");
    assert_eq!(shared.iter().filter(|(_, size, _)| size == "7g.80gb").count(), 2, "{shared:?}");
}

#[test]
fn jobs_without_a_plan_are_named_with_the_reason() {
    let mut named = job(3, "a", 9, "times=1g:10");
    named.job.wanted_nodes = "n1".to_owned();
    let mut elsewhere = job(4, "a", 9, "times=1g:10");
    elsewhere.job.partition = "cpu".to_owned();
    let jobs = [job(1, "a", 9, "job-profile=bert"), job(2, "a", 9, "times=5g:10"), named, elsewhere];
    let decided = decided(&jobs, vec![gpu("n1", 0, "a100-40gb")]);
    let mut left = decided.left.clone();
    left.sort();
    let why: Vec<(u32, &str)> = left.iter().map(|(job, why)| (*job, why.as_str())).collect();
    let size = "no GPU of its partition offers one of its sizes";
    assert_eq!(
        why,
        [(1, "no past job of profile bert is known yet"), (2, size), (3, "it names its nodes"), (4, size)]
    );
    assert_eq!(all(&decided), []);
}

#[test]
fn learnt_times_are_used_where_a_job_says_none() {
    let past = |instance: &str, seconds| crate::slurm::sacct::Past {
        user: "a".to_owned(),
        account: String::new(),
        job_profile: "bert".to_owned(),
        instance: instance.to_owned(),
        seconds,
    };
    let learnt =
        Learnt::of(vec![past("1g.5gb", 60), past("7g.40gb", 50), past("1g.10gb", 1)], LearnFrom::User);
    let decided =
        decide(&[job(1, "a", 9, "job-profile=bert")], vec![gpu("n1", 0, "a100-40gb")], &learnt, 1000);
    let assignment = &decided.batches[0].1[0];
    assert_eq!((assignment.size.as_str(), (assignment.end - assignment.begin) / 1_000_000), ("7g.40gb", 50));
}

#[test]
fn busy_places_are_planned_for_when_they_come_free() {
    let mut busy = gpu("n1", 0, "a100-40gb");
    busy.now.instances =
        vec![PresentInstance { profile: "7g.40gb".to_owned(), start: 0, until: Some(30_000_000) }];
    let decided = decided(&[job(1, "a", 9, "times=7g:10")], vec![busy]);
    assert_eq!(decided.batches[0].1[0].begin, 30_000_000);
}

#[test]
fn one_jobs_nonsense_leaves_the_others_their_plans() {
    // 116 days, more than a plan can hold, and 366, which --gpu-times takes at most.
    let jobs = [
        job(1, "a", 9, "times=1g:10000001"),
        job(2, "a", 9, "times=1g:31622400,7g:10"),
        job(3, "b", 1, "times=7g:10"),
    ];
    let decided = decided(&jobs, vec![gpu("n1", 0, "a100-40gb")]);
    assert_eq!(all(&decided).iter().map(|(job, ..)| *job).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(decided.left[0].0, 1);
}

#[test]
fn a_size_on_which_its_limit_would_end_the_job_is_not_chosen() {
    let mut short = job(1, "a", 9, "times=1g:61,2g:60");
    short.job.limit = Some(60);
    let mut shorter = job(2, "a", 9, "times=1g:61,2g:60");
    shorter.job.limit = Some(59);
    let decided = decided(&[short, shorter], vec![gpu("n1", 0, "a100-40gb")]);
    assert_eq!(
        all(&decided).iter().map(|(job, size, _)| (*job, size.as_str())).collect::<Vec<_>>(),
        [(1, "2g.10gb")]
    );
    assert_eq!(
        decided.left,
        [(2, "no GPU of its partition offers one of its sizes within its time limit".to_owned())]
    );
}

#[test]
fn a_round_has_a_bounded_number_of_jobs() {
    let jobs: Vec<Pending> = (1..=1003).map(|id| job(id, "a", 2000 - u64::from(id), "times=1g:10")).collect();
    let decided = decided(&jobs, vec![gpu("n1", 0, "a100-40gb")]);
    assert_eq!(all(&decided).len(), MOST_JOBS);
    assert_eq!(decided.left.iter().map(|(job, _)| *job).collect::<Vec<_>>(), [1001, 1002, 1003]);
}
