use std::sync::Arc;

use super::*;
use crate::tres::Tres;
use protocol::wire::parse_request;

fn site(limits: &str) -> SiteConfig {
    let text = format!(
        "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
         [[nodes]]\nnames = \"n3\"\ngpu = \"a30\"\ncount = 2\nmig = \"dynamic\"\n{limits}"
    );
    let (config, errors) = site_config::parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
    assert_eq!(errors, [], "{limits}");
    config.unwrap()
}

/// A job of user 1001 in partition `gpu` for nodes `n1` and `n2`.
fn job() -> Submission {
    Submission {
        partitions: vec!["gpu".to_owned()],
        partition_nodes: Some(Arc::new(["n1", "n2"].map(str::to_owned).into())),
        account: Some("bio".to_owned()),
        user: Some(1001),
        qos: Some("normal".to_owned()),
        minutes: Some(60),
        ..Submission::default()
    }
}

fn amount(gpus: u64, slices: u64) -> Amount {
    Amount { gpus, slices }
}

#[test]
fn a_job_takes_at_the_least_the_smallest_part_that_does() {
    let config = site("");
    let of =
        |request: &str, job: &Submission| least(Some(&parse_request(request).unwrap()), &[], job, &config);
    let slices = |request: &str| of(&format!("v1 {request}"), &job()).slices;
    assert_eq!([slices("iso=mig:2g.10gb"), slices("iso=mig:2g.10gb inst=3")], [2, 6]);
    assert_eq!(
        [slices("iso=mig mem=9537"), slices("iso=mps mem=9537"), slices("iso=mps mem=100")],
        [1, 2, 1]
    );
    assert_eq!(
        [slices("iso=auto mem=19073"), slices("iso=tasks"), slices("iso=mig times=2g:60,3g:20")],
        [3, 1, 2]
    );
    assert_eq!(of("v1 iso=whole gpus=2", &job()), amount(2, 14));
    let anywhere = Submission { partition_nodes: None, nodes: 3, ..job() };
    assert_eq!(of("v1 iso=whole gpus=2", &anywhere), amount(6, 24), "it may get an A30, which has four");
    assert_eq!(of("v1 iso=mig:1g.5gb", &anywhere), amount(0, 3));
}

/// Else such a job would be accepted, and refused at each start.
#[test]
fn sms_and_limits_on_instances_make_the_smallest_part_larger() {
    let slices = |limits: &str, request: &str| {
        let limits = format!("[[limits]]\npartition = \"gpu\"\n{limits}\n");
        least(Some(&parse_request(&format!("v1 {request}")).unwrap()), &[], &job(), &site(&limits)).slices
    };
    assert_eq!(
        [slices("max_time_min = 90", "iso=mig threads=100"), slices("max_time_min = 90", "iso=mig")],
        [7, 1]
    );
    let large = "isolation = [\"mig:3g.20gb\"]";
    assert_eq!([slices(large, "iso=mig mem=4000"), slices(large, "iso=auto mem=4000 inst=2")], [3, 1]);
    assert_eq!(
        [slices(large, "iso=mig times=1g:60,2g:30,3g:20"), slices("", "iso=mig times=2g:30,3g:20")],
        [3, 2]
    );
    let job = |limits: &str, request: &str| {
        let config = site(&format!("[[limits]]\npartition = \"gpu\"\n{limits}\n"));
        never(least(Some(&parse_request(request).unwrap()), &[], &job(), &config), &job(), &config)
    };
    assert!(job("max_slices = 3", "v1 iso=mig threads=100").unwrap().starts_with("it needs 7 slices"));
}

#[test]
fn gpus_by_slurms_own_options_are_counted() {
    let config = site("");
    let of = |tres: Tres, job: Submission| least(None, &tres.gpu_entries(), &job, &config);
    let list = |text: &str| Some(text.to_owned());
    let two = Submission { nodes: 2, ..job() };
    assert_eq!(of(Tres { per_node: list("gres:gpu:2"), ..Tres::default() }, two.clone()), amount(4, 28));
    assert_eq!(of(Tres { per_job: list("gres:gpu:3"), ..Tres::default() }, two.clone()), amount(3, 21));
    assert_eq!(of(Tres { per_node: list("gres:shard:20"), ..Tres::default() }, two.clone()), amount(0, 8));
    assert_eq!(of(Tres::default(), Submission { exclusive: true, ..two }), amount(2, 14));
    assert_eq!(of(Tres::default(), job()), Amount::default());
    let elsewhere = Submission { partition_nodes: Some(Arc::new(["x1".to_owned()].into())), ..job() };
    assert_eq!(of(Tres { per_node: list("gres:gpu:1"), ..Tres::default() }, elsewhere), amount(1, 7));
    let most = Tres { per_node: list("gres:gpu:18446744073709551615"), ..Tres::default() };
    assert_eq!(of(most, Submission { nodes: u32::MAX, ..job() }), amount(u64::MAX, u64::MAX));
}

#[test]
fn a_job_that_can_never_start_is_told_the_limit_its_place_and_what_fits() {
    let said = |need: Amount, limit: &str, job: Submission| {
        never(need, &job, &site(&format!("[[limits]]\n{limit}\n")))
    };
    assert_eq!(
        said(amount(4, 28), "user = \"1001\"\nmax_gpus = 2", job()).unwrap(),
        "it needs 4 whole GPUs, and for user 1001 a job may have at most 2 (max_gpus, line 11 of tessera.toml)"
    );
    assert_eq!(
        said(amount(0, 8), "qos = \"Normal\"\nrunning_slices = 7", job()).unwrap(),
        "it needs 8 slices, and for QOS Normal running jobs together may have at most 7 (running_slices, line 11 of tessera.toml)"
    );
    assert_eq!(
        said(amount(0, 8), "partition = \"gpu\"\nrunning_slices = 7\neach_user = true", job()).unwrap(),
        "it needs 8 slices, and in partition gpu running jobs of one user together may have at most 7 (running_slices, line 11 of \
         tessera.toml)"
    );
    let long =
        |minutes| said(amount(0, 1), "account = \"bio\"\nmax_time_min = 30", Submission { minutes, ..job() });
    assert_eq!(
        long(Some(60)).unwrap(),
        "it has a time limit of 60 minutes, and for account bio a job may have at most 30 (max_time_min, line 11 of tessera.toml): \
         use --time=30"
    );
    assert!(long(Some(UNLIMITED)).unwrap().starts_with("it has no time limit, and "));
    assert_eq!([long(Some(30)), long(None)], [None, None]);
    for (other, limit) in
        [("user", "user = \"1002\""), ("QOS", "qos = \"long\""), ("name", "user = \"alice\"")]
    {
        assert_eq!(said(amount(4, 28), &format!("{limit}\nmax_gpus = 2"), job()), None, "another {other}");
    }
    assert_eq!(
        said(Amount::default(), "user = \"1001\"\nmax_time_min = 30", job()),
        None,
        "it asks for no GPU"
    );
}

fn on(node: &str, slices: u64) -> Vec<(String, Amount)> {
    vec![(node.to_owned(), amount(0, slices))]
}

/// Checks that the sum of each limit is that of its jobs.
fn assert_adds_up(running: &RunningJobs) {
    for sums in running.sums.values() {
        assert_eq!(sums.all, sums.jobs.values().copied().sum());
    }
}

#[test]
fn the_whole_follows_each_job_that_comes_changes_and_goes() {
    let config = site(
        "[[limits]]\nqos = \"normal\"\nrunning_slices = 14\n[[limits]]\neach_user = true\nrunning_gpus = 9\n",
    );
    let mut running = RunningJobs::default();
    for step in 0_u32..400 {
        let (id, n) = (JobId(step * 7 % 23), u64::from(step * 5 % 11));
        let job = Submission { user: Some(1001 + step % 3), ..job() };
        match step % 4 {
            0 => running.end(id),
            1 => running.leave(id, "n1"),
            _ => running.begin(
                id,
                &job,
                vec![("n1".to_owned(), amount(n, 7 * n)), ("n2".to_owned(), amount(0, n))],
                &config,
            ),
        }
        assert_adds_up(&running);
    }
    assert!(running.sums.len() > 2, "each user has sums of his own");
}

#[test]
fn a_job_waits_for_what_running_jobs_have_of_a_limit() {
    let config = site("[[limits]]\nqos = \"normal\"\nrunning_slices = 14\n");
    let mut running = RunningJobs::default();
    let keeps = |running: &RunningJobs, slices| running.keeps(amount(0, slices), &job(), &config);
    for (id, slices) in [(12, 7), (15, 5)] {
        running.begin(JobId(id), &job(), on("n1", slices), &config);
    }
    let other = Submission { qos: Some("long".to_owned()), ..job() };
    running.begin(JobId(16), &other, on("n1", 7), &config);
    assert_eq!(keeps(&running, 2), None);
    assert_eq!(
        keeps(&running, 3).unwrap(),
        "for QOS normal running jobs have 12 of 14 slices (running_slices, line 11 of tessera.toml): job 12 has 7, job 15 has 5; it needs 3"
    );
    assert_eq!(running.keeps(amount(0, 7), &other, &config), None);
    // A job that is counted again, as after a restart, counts once.
    running.begin(JobId(12), &job(), on("n1", 7), &config);
    assert!(keeps(&running, 3).is_some() && keeps(&running, 2).is_none());
    running.leave(JobId(15), "n2");
    assert!(keeps(&running, 3).is_some(), "it has nothing there");
    running.leave(JobId(15), "n1");
    assert_eq!(keeps(&running, 7), None);
    for id in [12, 15, 16, 17] {
        running.end(JobId(id));
    }
    assert!(running.jobs.is_empty() && running.sums.is_empty(), "{running:?}");
}

#[test]
fn a_sum_can_be_that_of_each_user() {
    let config = site("[[limits]]\neach_user = true\nrunning_gpus = 2\n");
    let mut running = RunningJobs::default();
    let of = |user| Submission { user: Some(user), ..job() };
    let gpus = |n| vec![("n1".to_owned(), amount(n, 7 * n))];
    running.begin(JobId(1), &of(1001), gpus(2), &config);
    running.begin(JobId(2), &of(1002), gpus(1), &config);
    let keeps = |user, n| running.keeps(amount(n, 7 * n), &of(user), &config);
    assert_eq!([keeps(1002, 1), keeps(1003, 2)], [None, None]);
    assert_eq!(
        keeps(1001, 1).unwrap(),
        "here its user's running jobs have 2 of 2 whole GPUs (running_gpus, line 11 of tessera.toml): job 1 has 2; it needs 1"
    );
    assert_eq!(running.keeps(amount(0, 3), &of(1001), &config), None, "parts of GPUs are no whole GPUs");
}

/// A sentence has at most 400 bytes in an AdminComment, and what is remembered goes with its job.
#[test]
fn many_jobs_are_counted_and_few_are_named() {
    let config = site(
        "[[limits]]\npartition = \"gpu\"\nrunning_slices = 20000\n[[limits]]\nuser = \"1001\"\nrunning_slices = 100000\n",
    );
    let mut running = RunningJobs::default();
    for id in 1..=10_000 {
        running.begin(JobId(id), &job(), on("n1", 1 + u64::from(id % 2)), &config);
    }
    let why = running.keeps(amount(0, 7000), &job(), &config).unwrap();
    assert_eq!(
        why,
        "in partition gpu running jobs have 15000 of 20000 slices (running_slices, line 11 of tessera.toml): job 1 has 2, job 3 has \
         2, job 5 has 2, 9997 more jobs have 14994; it needs 7000"
    );
    for id in 1..=10_000 {
        running.end(JobId(id));
    }
    assert!(running.jobs.is_empty() && running.sums.is_empty());
}

#[test]
fn a_site_without_sums_remembers_nothing() {
    let mut running = RunningJobs::default();
    running.begin(JobId(1), &job(), on("n1", 7), &site("[[limits]]\npartition = \"gpu\"\nmax_slices = 7\n"));
    assert!(running.jobs.is_empty());
}

#[test]
fn a_job_without_a_time_limit_has_that_of_its_partition() {
    const UNSET: u32 = 0xffff_fffe;
    assert_eq!(time_limit(5, 10, 20, UNSET), 5);
    assert_eq!(time_limit(UNSET, 10, 20, UNSET), 10);
    assert_eq!(time_limit(UNSET, UNSET, 20, UNSET), 20);
    assert_eq!(
        [time_limit(UNSET, UNSET, UNLIMITED, UNSET), time_limit(UNSET, UNSET, UNSET, UNSET)],
        [UNLIMITED; 2]
    );
}
