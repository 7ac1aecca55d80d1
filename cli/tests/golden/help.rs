//! Help, wrong usage, completions and the man page.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use insta::assert_snapshot;

use super::{Site, run};

#[test]
fn help_texts_are_as_recorded() {
    assert_snapshot!(run("-h"), @r"
    See and explain what Tessera does with a cluster's GPUs

    Usage: tessera [OPTIONS] <COMMAND>

    For users:
      explain  Explain what a request would get, and why
      free     Show what could start now, and where
      why      Say why a job waits, and when it could start
      change   Change the GPU request of a waiting job
      report   Show what a job got, what it used and what it cost
      usage    Show which GPUs jobs had, and how much of them they used

    For batches:
      plan     Plan a batch of jobs on GPUs that repartition

    For administrators:
      setup    Prepare the installed Slurm and its files for Tessera
      check    Check the file tessera.toml, before it is used
      doctor   Check the running cluster: do nodes, Slurm and tessera.toml agree?
      layout   Draw each GPU as its memory slices

    Other:
      lab      Simulate, score and fit, away from the running cluster

    All commands: tessera --help. One of them: tessera COMMAND --help

    Options:
          --config <FILE>  Read this tessera.toml
      -h, --help           Print help (see more with '--help')
      -V, --version        Print version
    exit 0
    ");
    assert_snapshot!(run("--help"), @r"
    See and explain what Tessera does with a cluster's GPUs

    Tessera gives Slurm jobs MIG instances made at job start, shares with cooperative memory limits, and
    well-linked sets of whole GPUs. This command shows the layout of each GPU, explains why a request
    gets what it gets, writes the configuration for new nodes and checks that everything agrees.

    Results go to stdout, messages to stderr. Exit status: 0 for success, 1 for a problem that you or
    the site can fix, 2 for wrong usage, 70 for a bug in tessera.

    Usage: tessera [OPTIONS] <COMMAND>

    For users:
      explain      Explain what a request would get, and why
      free         Show what could start now, and where
      why          Say why a job waits, and when it could start
      change       Change the GPU request of a waiting job
      report       Show what a job got, what it used and what it cost
      usage        Show which GPUs jobs had, and how much of them they used
      top          Watch nodes, GPUs and jobs in the terminal
      times        Show how long the jobs of each application took on each instance size
      traffic      Show how much jobs send between their GPUs, and learn which need good links
      tasks        Show the GPU tasks that run and wait in this node's pool
      profiles     List GPU models and their MIG profiles

    For batches:
      plan         Plan a batch of jobs on GPUs that repartition
      planner      Choose sizes, places and order of pending moldable jobs

    For administrators:
      setup        Prepare the installed Slurm and its files for Tessera
      check        Check the file tessera.toml, before it is used
      doctor       Check the running cluster: do nodes, Slurm and tessera.toml agree?
      layout       Draw each GPU as its memory slices
      exporter     Serve metrics for Prometheus, and a page that shows the cluster
      history      Show day by day how instances came and went, and how much of the GPUs jobs had
      idle         Show jobs that have GPUs without using them
      power        See power limits and budgets of the cluster's GPUs
      discover     Write the configuration for this machine's GPUs
      node         Do by hand what Slurm's prolog and epilog do on a node

    Other:
      lab          Simulate, score and fit, away from the running cluster
      completions  Print the completion script of a shell
      man-pages    Write a man page of each command

    Options:
          --config <FILE>
              Read this tessera.toml
              
              By default the file that TESSERA_CONF names, else tessera.toml next to the file that
              SLURM_CONF names, else /etc/slurm/tessera.toml.

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      tessera layout                   every GPU of the cluster, drawn
      tessera free                     what could start now, and where
      tessera why 4711                 why this job waits, and until when
      tessera change 4711 --gpu-mem=5G let a job that waits ask for less
      tessera top                      nodes and jobs, live
      tessera report 4711              what this job got and used
      tessera explain --gpu-mem=10G    what this job would get, and why
      tessera profiles a100-40gb       what an A100 can be cut into
      tessera check                    is tessera.toml good?
      tessera discover --format all    configuration for this machine's GPUs
      tessera setup                    what Slurm's files need for Tessera
      tessera doctor                   does everything agree?
    exit 0
    ");
    assert_snapshot!(run("layout --help"), @r#"
    Draw each GPU as its memory slices

    Shows what the controller publishes for the nodes of tessera.toml: the instances, the jobs that have
    them, and what is free. Each GPU is a row of memory slices. If it is partitioned, the profiles are
    above and their jobs below: "job 12" has an instance alone, "mps 13 14" share one, and "idle" is
    kept for the next job that needs it. If there is room, each job is followed by its user's name. More
    than 40 nodes are shown as groups that are used alike.

    The last lines say how many GPUs and nodes have no job, and what fragmentation costs: how many more
    jobs of each shape would fit if the running jobs were packed on as few GPUs as possible.

    Usage: tessera layout [OPTIONS]

    Options:
          --config <FILE>
              Read this tessera.toml
              
              By default the file that TESSERA_CONF names, else tessera.toml next to the file that
              SLURM_CONF names, else /etc/slurm/tessera.toml.

          --node <NODES>
              Only these nodes, a hostlist such as n[1-2]

          --partition <NAME>
              Only nodes of this partition

          --user <NAME>
              Only nodes where this user's jobs run

          --all
              Draw each node, however many there are

          --summary
              Show groups of nodes that are used alike, however few there are

          --watch
              Show it again and again, until Ctrl-C

          --every <TIME>
              Ask Slurm every TIME, such as 5s or 1m
              
              [default: 5s]

          --from <FILE>
              Read layouts from FILE (- for standard input) instead of asking Slurm
              
              Each line has a node's name and its layout, as sinfo -O nodelist,extra prints them.

          --here
              Ask this node's driver and journal instead of Slurm; needs root

          --json
              Print JSON

          --svg <FILE>
              Write a picture to FILE, - for standard output

          --fits <PROFILE>
              Draw in the picture where an instance of PROFILE fits, and where it collides

          --color <WHEN>
              Use colour

              Possible values:
              - auto:   On a terminal, unless NO_COLOR is set
              - always: Always
              - never:  Never
              
              [default: auto]

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      tessera layout --node n[1-2]
      tessera layout --user alice --watch
      tessera layout --svg layout.svg
      sinfo -h -O nodelist:20,extra:4000 | tessera layout --from -
    exit 0
    "#);
    assert_snapshot!(run("explain -h"), @r"
    Explain what a request would get, and why

    Usage: tessera explain [OPTIONS]

    Options:
          --config <FILE>     Read this tessera.toml
      -w, --node <NODES>      Ask these nodes of tessera.toml, such as n[1-4]; by default all
          --gpu <MODEL[,N]>   Ask a made-up node with N GPUs of this model instead of one of
                              tessera.toml
          --links <SYSTEM>    Interconnect of that node [default: pcie]
          --live              Fail where no Slurm answers, instead of taking the nodes as empty
          --empty             Take all nodes as empty
          --all               Print the candidates of every node
          --busy <LAYOUT>     Use this layout as the node's state, as sinfo -O extra prints it
      -p, --partition <NAME>  Apply the limits of this partition
      -A, --account <NAME>    Apply the limits of this account
      -q, --qos <NAME>        Apply Slurm's limits of this QOS instead of those of your default one
          --json              Print JSON
      -h, --help              Print help (see more with '--help')

    Request, as for sbatch:
          --gpu-isolation <KIND>     auto, mig, mig:PROFILE, mig-shared:INSTANCE, mps, gpu-tasks,
                                     gpu-tasks:probes, whole or slurm
          --gpu-mem <SIZE>           Memory per instance or share, or per process of gpu-tasks, such as
                                     10G
          --gpu-instances <N>        MIG instances per node (2) or for each Slurm task (1/task)
          --gpu-sms <PERCENT>        Least percentage of the GPU's SMs; a share is limited to it as well
          --gpu-pattern <PATTERN>    How whole GPUs talk to each other: ring, tree, chain, star, all,
                                     none or ring+tree
          --gpu-bandwidth <NEED>     sensitive or insensitive to the bandwidth between whole GPUs
          --gpu-set-policy <POLICY>  Policy that selects a set of whole GPUs: preserve, greedy,
                                     topo-aware or baseline
          --gpu-times <LIST>         Run time on each size, such as 1g:60s,2g:35s; a planner chooses
                                     among the sizes
          --gpu-app <NAME>           Application: a planner learns run times from past jobs of this name
          --gpu-place <GPU@START>    Preferred place of the instance, GPU and first slice such as 3@4;
                                     another if it is taken
          --gpu-wait <GBPS,TIME>     Wait for whole GPUs above a predicted bandwidth, such as
                                     25GB/s,20:00, or none
          --gpu-power <WATTS>        Power cap of each GPU, such as 200
          --ntasks-per-node <N>      Slurm tasks per node: a gpu-tasks job takes a seat for each
      -n, --ntasks <N>               Slurm tasks of the job
      -N, --nodes <N>                Nodes of the job, such as 2 or 2-4: what is explained is its part
                                     on each of them
      -t, --time <TIME>              Time limit, such as 2:00:00: it counts before reservations and
                                     under limits of GPU minutes
      -G, --gpus <N>                 Whole GPUs of the job, on as many nodes as Slurm likes unless -N
                                     says how many
          --gpus-per-node <N>        Whole GPUs per node
          --gpus-per-task <N>        Whole GPUs for each Slurm task; --ntasks-per-node says how many
                                     tasks a node has
          --gres <LIST>              GPUs or shards that Slurm counts, per node, such as gpu:2 or
                                     shard:10
          --exclusive                The job has its nodes for itself
          --reservation <NAME>       Only the nodes of this reservation; whether you may use it is not
                                     looked at
      -C, --constraint <LIST>        Only nodes with these features, such as a100&nvlink or
                                     (a100|h100)&nvlink
      -x, --exclude <NODES>          Not these nodes, a hostlist such as n[1-2]
      -c, --cpus-per-task <N>        Cores per Slurm task; not looked at
          --mem <SIZE>               Host memory; not looked at
    exit 0
    ");
    assert_snapshot!(run("plan -h"), @r"
    Plan a batch of jobs on GPUs that repartition

    Usage: tessera plan <COMMAND>
           tessera plan [OPTIONS] --tasks <FILE>

    Commands:
      show     Print the plan of each batch
      submit   Submit the plan as Slurm jobs
      reality  Compare a plan with what Slurm did

    Options:
          --config <FILE>  Read this tessera.toml
      -h, --help           Print help (see more with '--help')
    exit 0
    ");
    assert_snapshot!(run("node -h"), @r"
    Do by hand what Slurm's prolog and epilog do on a node

    Usage: tessera node [OPTIONS] <COMMAND>

    Commands:
      reconcile  Free everything that no live job owns
      hand-over  Leave the node's GPUs to Slurm alone, before Tessera is uninstalled
      status     Show what driver and journal say of the node
      health     Find unhealthy GPUs, and keep new jobs off them
      idle       Find jobs that have GPUs without using them
      sick       Keep new jobs off a GPU, for a reason of yours
      accept     Let GPUs that were left out take jobs again, once they are well
      realise    Create what an allocation names, as the prolog does [alias: realize]
      release    Free what a job has, as the epilog does

    Options:
          --config <FILE>  Read this tessera.toml
      -h, --help           Print help (see more with '--help')
    exit 0
    ");
}

#[test]
fn wrong_usage_says_why_and_exits_with_2() {
    assert_snapshot!(run("layuot"), @r"
    stderr: error: unrecognized subcommand 'layuot'
    stderr: 
    stderr:   tip: a similar subcommand exists: 'layout'
    stderr: 
    stderr: Usage: tessera [OPTIONS] <COMMAND>
    stderr: 
    stderr: For more information, try '--help'.
    exit 2
    ");
    assert_snapshot!(run("explain --gpu-mem=5X"), @r"
    stderr: tessera: refused at submission: --gpu-mem=5X: has an unknown suffix: use K, M, G, T or Ki, Mi, Gi, Ti: such as 10G or 500M (10^9 and 10^6 bytes), or 10Gi (2^30)
    exit 1
    ");
    assert_snapshot!(run("explain --gpu-sms=101"), @r"
    stderr: tessera: refused at submission: --gpu-sms=101: is not a part of the GPU: expected 1 to 100, such as 25 or 25%
    exit 1
    ");
    assert_snapshot!(run("explain --gpu-isolation=mug"), @r"
    stderr: tessera: refused at submission: --gpu-isolation=mug: is unknown: did you mean mig? expected auto, mig, mig:PROFILE, mig-shared:INSTANCE, mps, gpu-tasks, gpu-tasks:probes, whole or slurm, such as mig:2g.10gb
    exit 1
    ");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let site = Site::new();
    let mut child =
        site.command(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert_eq!((out.status.code(), out.stderr), (Some(0), Vec::new()));
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&format!("completions {shell}"));
        for command in
            ["layout", "explain", "discover", "doctor", "profiles", "check", "reconcile", "simulate"]
        {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
}

/// What stands below `lab` answers without that word, too.
#[test]
fn the_laboratory_answers_to_its_old_names() {
    let listed = |group: &str, command: &str| {
        let help = run(&format!("{group} -h"));
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
    };
    for command in ["score", "simulate", "topology", "links", "fit", "power", "plan"] {
        listed("lab", command);
    }
    listed("lab plan", "compare");
    listed("power", "status");
    let power = ["import", "calibrate", "fit", "choose", "divide", "simulate"];
    power.iter().for_each(|command| listed("lab power", command));
    let alone = ["score", "simulate", "topology", "links", "fit", "plan compare"].map(str::to_owned);
    for command in alone.into_iter().chain(power.iter().map(|command| format!("power {command}"))) {
        let (old, new) = (run(&format!("{command} --help")), run(&format!("lab {command} --help")));
        assert!(old.trim_end().ends_with("exit 0"), "{old}");
        // The longer name may break lines elsewhere.
        let words = |text: &str| {
            text.split_whitespace().filter(|w| *w != "lab").map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words(&old), words(&new));
    }
    assert_eq!(run("topology show dgx-v"), run("lab topology show dgx-v"));
}

#[test]
fn the_man_page_has_every_command_and_option() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/man/tessera.1.md");
    let page = fs::read_to_string(path).unwrap();
    for command in [
        "layout",
        "explain",
        "tasks",
        "profiles",
        "check",
        "discover",
        "doctor",
        "setup",
        "plan show",
        "lab plan compare",
        "plan submit",
        "plan reality",
        "planner",
        "exporter",
        "free",
        "why",
        "times",
        "traffic",
        "usage",
        "idle",
        "lab power calibrate",
        "lab power fit",
        "lab power choose",
        "node status",
        "node reconcile",
        "node health",
        "node idle",
        "node sick",
        "node accept",
        "node realise",
        "node release",
    ] {
        assert!(page.contains(&format!("**{command}**")), "{command}");
        let help = run(&format!("{command} -h"));
        for option in help
            .lines()
            .filter_map(|l| l.trim_start().split([' ', '[']).next().filter(|w| w.starts_with("--")))
        {
            assert!(option == "--help" || page.contains(&format!("**{option}**")), "{command} {option}");
        }
    }
}
