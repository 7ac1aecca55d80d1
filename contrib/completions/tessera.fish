# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_tessera_global_optspecs
    string join \n config= h/help V/version
end

function __fish_tessera_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_tessera_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_tessera_using_subcommand
    set -l cmd (__fish_tessera_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c tessera -n "__fish_tessera_needs_command" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_needs_command" -s V -l version -d 'Print version'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "layout" -d 'Draw each GPU as its slices'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "free" -d 'Show what could start now, and where'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "why" -d 'Say why a job waits, and when it could start'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "top" -d 'Watch nodes, GPUs and jobs in the terminal'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "report" -d 'Show what a job got, what it used and what it cost'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "history" -d 'Show day by day how instances came and went, and how much jobs held'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "explain" -d 'Explain what a request would get, and why'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "tasks" -d 'Show who holds and waits for what in this node\'s pool of GPU tasks'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "discover" -d 'Write the configuration for this machine\'s GPUs'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "doctor" -d 'Check that journal, driver, device nodes, MPS and Slurm agree'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "plan" -d 'Plan a batch of tasks on GPUs that repartition'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "planner" -d 'Choose sizes, places and order of pending moldable jobs'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "exporter" -d 'Serve metrics for Prometheus, and a page that shows the cluster'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "times" -d 'Show how long the jobs of each profile took on each instance size'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "score" -d 'Choose GPUs by pattern and topology, and score them'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "simulate" -d 'Simulate policies on a file of jobs'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "topology" -d 'Show how a node\'s GPUs are linked'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "lint" -d 'List where Slurm\'s own choice of GPUs falls behind'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "fit" -d 'Fit a model to measurements'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "power" -d 'Choose the partition and the power cap of a GPU from hardware counters'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "profiles" -d 'List GPU models and their MIG profiles'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "check" -d 'Check tessera.toml'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "node" -d 'Do by hand what Slurm\'s prolog and epilog do on a node'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "completions" -d 'Print the completion script of a shell'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "man-pages" -d 'Write a man page of each command'
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l node -d 'Only these nodes, a hostlist such as n[1-2]' -r
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l partition -d 'Only nodes of this partition' -r
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l user -d 'Only nodes where this user\'s jobs run' -r
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l every -d 'Ask Slurm every TIME, such as 5s or 1m' -r
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l from -d 'Read layouts from FILE (- for standard input) instead of asking Slurm' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l svg -d 'Write a picture to FILE, - for standard output' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l all -d 'Draw each node, however many there are'
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l summary -d 'Show groups of nodes that are used alike, however few there are'
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l watch -d 'Show it again and again, until Ctrl-C'
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l live -d 'Ask this node\'s driver and journal instead of Slurm; needs root'
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand layout" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand free" -l mem -d 'Only shapes with at least this memory, and shares of this size' -r
complete -c tessera -n "__fish_tessera_using_subcommand free" -l partition -d 'Only this partition\'s nodes, under its limits' -r
complete -c tessera -n "__fish_tessera_using_subcommand free" -l account -d 'Apply tessera.toml\'s limits of this account' -r
complete -c tessera -n "__fish_tessera_using_subcommand free" -l node -d 'Only these nodes, a hostlist such as n[1-2]' -r
complete -c tessera -n "__fish_tessera_using_subcommand free" -l from -d 'Read layouts from FILE (- for standard input) instead of asking Slurm' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand free" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand free" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand free" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand why" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand why" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand why" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand top" -l user -d 'Show this user\'s jobs, and the nodes where they run' -r
complete -c tessera -n "__fish_tessera_using_subcommand top" -l partition -d 'Show this partition\'s nodes and jobs' -r
complete -c tessera -n "__fish_tessera_using_subcommand top" -l node -d 'Show these nodes, a hostlist such as n[1-2]' -r
complete -c tessera -n "__fish_tessera_using_subcommand top" -l every -d 'Ask Slurm every TIME, such as 5s or 1m' -r
complete -c tessera -n "__fish_tessera_using_subcommand top" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand report" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand report" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand history" -l since -d 'How many days back to begin' -r
complete -c tessera -n "__fish_tessera_using_subcommand history" -l from -d 'Read the output of sacct from FILE (- for standard input) instead of running it, and count its whole time' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand history" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand history" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand history" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l node -d 'Ask these nodes of tessera.toml, such as n[1-4]; by default all' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l model -d 'Ask a made-up node with GPUs of this model instead of one of tessera.toml' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l count -d 'Number of GPUs in that node' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l links -d 'Interconnect of that node' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l busy -d 'Use this layout as the node\'s state, as sinfo -O extra prints it' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l partition -d 'Apply the limits of this partition' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l account -d 'Apply the limits of this account' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-isolation -d 'auto, mig, mig:PROFILE, mps, tasks, tasks:probes, whole or none' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-mem -d 'Memory per instance or share, or per process for tasks, such as 10G' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-instances -d 'MIG instances per node (2) or for each Slurm task (1/task)' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-threads -d 'Percentage of the SMs: the most that an mps job gets, the least that a mig job gets' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-pattern -d 'How whole GPUs talk to each other: ring, tree, chain, star, all, none or ring+tree' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-bandwidth -d 'sensitive or insensitive to the bandwidth between whole GPUs' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-set-policy -d 'Policy that selects a set of whole GPUs: preserve, greedy, topo-aware or baseline' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-times -d 'Run time on each size, such as 1g:60,2g:35 for seconds; a planner chooses among the sizes' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-profile -d 'Job profile: a planner learns run times from past jobs of this name' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-place -d 'Preferred place of the instance, GPU and first slice such as 3@4; another if it is taken' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-wait -d 'Wait up to TIME for whole GPUs that are predicted to exceed GBPS, or none' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l ntasks-per-node -d 'Slurm tasks per node: a job of kind tasks takes a seat for each' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-power -d 'Power cap of each GPU, such as 200' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpus -l gpus-per-node -d 'Whole GPUs per node' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpus-per-task -d 'Whole GPUs for each Slurm task; --ntasks-per-node says how many tasks a node has' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gres -d 'GPUs or shards that Slurm counts, per node, such as gpu:2 or shard:10' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l reservation -d 'Only the nodes of this reservation; whether you may use it is not looked at' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l constraint -d 'Only nodes with these features, such as a100&nvlink or (a100|h100)&nvlink' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l exclude -d 'Not these nodes, a hostlist such as n[1-2]' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l live -d 'Fail where no Slurm answers, instead of taking the nodes as empty'
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l empty -d 'Take all nodes as empty'
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l all -d 'Print the candidates of every node'
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l exclusive -d 'The job has its nodes for itself'
complete -c tessera -n "__fish_tessera_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand tasks" -l node -d 'The node\'s name; by default SLURMD_NODENAME, else the host name' -r
complete -c tessera -n "__fish_tessera_using_subcommand tasks" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand tasks" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand tasks" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand discover" -l node -d 'Node name to write; by default SLURMD_NODENAME or the host name' -r
complete -c tessera -n "__fish_tessera_using_subcommand discover" -l format -d 'What to print' -r -f -a "toml\t'[[nodes]] of tessera.toml'
gres\t'Lines of gres.conf'
slurm\t'Lines of slurm.conf'
all\t'All of them'"
complete -c tessera -n "__fish_tessera_using_subcommand discover" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand discover" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand doctor" -l node -d 'Only this node' -r
complete -c tessera -n "__fish_tessera_using_subcommand doctor" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand doctor" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l tasks -d 'Read tasks from FILE, - for standard input; alone the same as `tessera plan show FILE`' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l gpu -d 'The GPU model, and how many of them' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l times -d 'Read the times of creating and destroying instances from FILE' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l budget -d 'How long the default policy may search, such as 50ms, 2s or 10m; at most 1h' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l svg -d 'Write a picture to FILE, - for standard output' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l on -d 'Plan on these GPUs as they are now: a node of tessera.toml and its GPUs, such as n1 or n1:0-3,5' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l reality -d 'The same as `tessera plan reality PLAN`' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l policy -d 'The policy that plans' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l script -d 'Run this batch script (- for standard input) for every task, with {task} replaced by its name' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l overhead -d 'Time that Slurm adds to every task: scheduling, prolog and epilog' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l time-limit -d 'End a task that takes more than FACTOR times its planned time, rounded up to minutes' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l record -d 'Keep the plan and its jobs in FILE; by default tessera-plan-JOB.json in this directory' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l json -d 'Print one JSON object per batch'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l compare -d 'The same as `tessera plan compare`'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l submit -d 'The same as `tessera plan submit`'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l dry-run -d 'Show the sbatch commands instead of running them'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -l wait -d 'Stay until the last task has ended, then compare plan and reality'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -a "show" -d 'Print the plan of each batch'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -a "compare" -d 'Print all policies side by side'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -a "submit" -d 'Submit the plan as Slurm jobs'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and not __fish_seen_subcommand_from show compare submit reality" -a "reality" -d 'Compare a plan with what Slurm did'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from show" -l gpu -d 'The GPU model, and how many of them' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from show" -l policy -d 'The policy that plans' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from show" -l times -d 'Read the times of creating and destroying instances from FILE' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from show" -l budget -d 'How long the default policy may search, such as 50ms, 2s or 10m; at most 1h' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from show" -l svg -d 'Write a picture to FILE, - for standard output' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from show" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from show" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from show" -l json -d 'Print one JSON object per batch'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from compare" -l gpu -d 'The GPU model, and how many of them' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from compare" -l times -d 'Read the times of creating and destroying instances from FILE' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from compare" -l budget -d 'How long the default policy may search, such as 50ms, 2s or 10m; at most 1h' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from compare" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from submit" -l on -d 'Plan on these GPUs as they are now: a node of tessera.toml and its GPUs, such as n1 or n1:0-3,5' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from submit" -l policy -d 'The policy that plans' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from submit" -l times -d 'Read the times of creating and destroying instances from FILE' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from submit" -l budget -d 'How long the default policy may search, such as 50ms, 2s or 10m; at most 1h' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from submit" -l script -d 'Run this batch script (- for standard input) for every task, with {task} replaced by its name' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from submit" -l overhead -d 'Time that Slurm adds to every task: scheduling, prolog and epilog' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from submit" -l time-limit -d 'End a task that takes more than FACTOR times its planned time, rounded up to minutes' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from submit" -l record -d 'Keep the plan and its jobs in FILE; by default tessera-plan-JOB.json in this directory' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from submit" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from submit" -l dry-run -d 'Show the sbatch commands instead of running them'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from submit" -l wait -d 'Stay until the last task has ended, then compare plan and reality'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from submit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from reality" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from reality" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand plan; and __fish_seen_subcommand_from reality" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand planner" -l interval -d 'How long to wait between plans' -r
complete -c tessera -n "__fish_tessera_using_subcommand planner" -l budget -d 'How long a plan may search' -r
complete -c tessera -n "__fish_tessera_using_subcommand planner" -l since -d 'How far back sacct looks for the times of job profiles, in days' -r
complete -c tessera -n "__fish_tessera_using_subcommand planner" -l lock -d 'Hold this file while running, so that there is one planner per cluster' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand planner" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand planner" -l once -d 'Plan once and end'
complete -c tessera -n "__fish_tessera_using_subcommand planner" -l dry-run -d 'Print the changes instead of making them'
complete -c tessera -n "__fish_tessera_using_subcommand planner" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand exporter" -l listen -d 'Listen on this address' -r
complete -c tessera -n "__fish_tessera_using_subcommand exporter" -l every -d 'Ask Slurm every TIME, such as 15s or 1m' -r
complete -c tessera -n "__fish_tessera_using_subcommand exporter" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand exporter" -l page -d 'Serve the page as well'
complete -c tessera -n "__fish_tessera_using_subcommand exporter" -l users -d 'Name the users of jobs on the page; without it nobody is named'
complete -c tessera -n "__fish_tessera_using_subcommand exporter" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand times" -l profile -d 'Only this profile' -r
complete -c tessera -n "__fish_tessera_using_subcommand times" -l since -d 'How far back to look, in days' -r
complete -c tessera -n "__fish_tessera_using_subcommand times" -l from -d 'Read the output of sacct from FILE (- for standard input) instead of running it' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand times" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand times" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand times" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand score" -l topology -d 'A named system, a file with matrix = [[…]] or [[nodes]] as `tessera discover` writes it, or a node' -r
complete -c tessera -n "__fish_tessera_using_subcommand score" -l gpus -d 'How many GPUs' -r
complete -c tessera -n "__fish_tessera_using_subcommand score" -l pattern -d 'ring, tree, chain, star, all, none, ring+tree, or file:PATH with an edge list' -r
complete -c tessera -n "__fish_tessera_using_subcommand score" -l bandwidth -d 'Whether bandwidth matters to the job' -r -f -a "sensitive\t'Well-linked GPUs make it faster'
insensitive\t'Any GPUs do'"
complete -c tessera -n "__fish_tessera_using_subcommand score" -l policy -d 'baseline, topo-aware, greedy or preserve' -r
complete -c tessera -n "__fish_tessera_using_subcommand score" -l model -d 'bottleneck, mapa2021, or a file that `tessera fit bandwidth` wrote' -r
complete -c tessera -n "__fish_tessera_using_subcommand score" -l busy -d 'GPUs in use, such as 0,3-5' -r
complete -c tessera -n "__fish_tessera_using_subcommand score" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand score" -l all -d 'Also print all candidates, with sets that score the same in one line'
complete -c tessera -n "__fish_tessera_using_subcommand score" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand score" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and not __fish_seen_subcommand_from mapa case replay" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and not __fish_seen_subcommand_from mapa case replay" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and not __fish_seen_subcommand_from mapa case replay" -f -a "mapa" -d 'Run jobs through one node, first in, first out'
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and not __fish_seen_subcommand_from mapa case replay" -f -a "case" -d 'Run GPU tasks on one node\'s GPUs or MIG instances'
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and not __fish_seen_subcommand_from mapa case replay" -f -a "replay" -d 'Run a site\'s past jobs again on its GPUs, under Tessera and under stock Slurm'
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from mapa" -l jobs -d 'The file of jobs' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from mapa" -l topology -d 'A named system, a file with matrix = [[…]] or [[nodes]] as `tessera discover` writes it, or a node' -r
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from mapa" -l policy -d 'baseline, topo-aware, greedy, preserve, or all' -r
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from mapa" -l model -d 'bottleneck, mapa2021, or a file that `tessera fit bandwidth` wrote' -r
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from mapa" -l refuse -d 'Under preserve, let a sensitive job refuse a set of at most GBPS; the queue waits for the job' -r
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from mapa" -l wait-below -d 'Under preserve, let a sensitive job wait for a set above GBPS while others pass it' -r
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from mapa" -l wait -d 'How many cycles such a job waits at most' -r
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from mapa" -l communication -d 'Slow sensitive jobs down below 50 GB/s: this share of their run time, 0 to 1, grows with 1/EffBW' -r
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from mapa" -l csv -d 'Write a line per job to FILE; with -, only these lines go to standard output' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from mapa" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from mapa" -l at-once -d 'Queue all jobs at the start, as MAPA\'s own simulator does'
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from mapa" -l refuse-last-links -d 'Also let a one-GPU job refuse its GPU if no good link would remain among the other free GPUs'
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from mapa" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from mapa" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l node -d 'v100-16gb,4, p100-16gb,2, a30-24gb,4/1g.6gb*4 or others of that form; a100-40gb,1 to have the policy make instances' -r
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l mix -d 'rodinia:W1 to W8, rodinia:2-1:128, darknet:TASK, darknet:mix, mig:C:2-1 or mig-small:C:2-1' -r
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l jobs -d 'Run the jobs of FILE, one JSON object a line' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l replay -d 'Answer the begins and frees of FILE, one JSON object a line, and print the events' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l check -d 'Check FILE, the log of a node\'s task broker ([tasks] log): no device over its memory, each task granted once' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l figure -d 'Print a table or figure of the papers, ours beside theirs: fig5 to fig9, table3, table4, table6, table7, mig:fig1 to mig:fig4 or mig:table2' -r
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l svg -d 'Also draw the figure into FILE' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l policy -d 'tessera, alg3, alg2, case-mig, sa, cg, schedgpu, slurm, or several with commas' -r
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l workers -d 'Most jobs that run at a time; the default is the papers\'' -r
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l order -d 'Order in which waiting tasks are tried' -r -f -a "arrival\t'As they began'
largest\t'By memory, largest first'"
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l seed -d 'Seed of random mixes' -r
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l events -d 'Write all events to FILE; with -, only these lines go to standard output' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -l print-jobs -d 'Print the jobs of the mix as --jobs reads them, and run nothing'
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from case" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from replay" -l sacct -d 'The jobs, as sacct prints them with the columns of the example; - for standard input' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from replay" -l stock -d 'Also stock Slurm on the nodes of FILE, a tessera.toml whose static GPUs have fixed instances' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from replay" -l csv -d 'Write a line per job and rule to FILE; with -, only these lines go to standard output' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from replay" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from replay" -l as-used -d 'Let jobs of one whole GPU ask for the GPU memory that they used, and a quarter more'
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from replay" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand simulate; and __fish_seen_subcommand_from replay" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand topology; and not __fish_seen_subcommand_from show svg" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand topology; and not __fish_seen_subcommand_from show svg" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand topology; and not __fish_seen_subcommand_from show svg" -f -a "show" -d 'Print links as a table, GB/s in one direction'
complete -c tessera -n "__fish_tessera_using_subcommand topology; and not __fish_seen_subcommand_from show svg" -f -a "svg" -d 'Draw the graph as SVG, on standard output'
complete -c tessera -n "__fish_tessera_using_subcommand topology; and __fish_seen_subcommand_from show" -l gpus -d 'Mark the set that this many GPUs would get' -r
complete -c tessera -n "__fish_tessera_using_subcommand topology; and __fish_seen_subcommand_from show" -l pattern -d 'The job\'s pattern, as in `tessera score`' -r
complete -c tessera -n "__fish_tessera_using_subcommand topology; and __fish_seen_subcommand_from show" -l bandwidth -d 'Whether bandwidth matters to the job' -r -f -a "sensitive\t'Well-linked GPUs make it faster'
insensitive\t'Any GPUs do'"
complete -c tessera -n "__fish_tessera_using_subcommand topology; and __fish_seen_subcommand_from show" -l busy -d 'GPUs in use, such as 0,3-5' -r
complete -c tessera -n "__fish_tessera_using_subcommand topology; and __fish_seen_subcommand_from show" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand topology; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand topology; and __fish_seen_subcommand_from svg" -l gpus -d 'Mark the set that this many GPUs would get' -r
complete -c tessera -n "__fish_tessera_using_subcommand topology; and __fish_seen_subcommand_from svg" -l pattern -d 'The job\'s pattern, as in `tessera score`' -r
complete -c tessera -n "__fish_tessera_using_subcommand topology; and __fish_seen_subcommand_from svg" -l bandwidth -d 'Whether bandwidth matters to the job' -r -f -a "sensitive\t'Well-linked GPUs make it faster'
insensitive\t'Any GPUs do'"
complete -c tessera -n "__fish_tessera_using_subcommand topology; and __fish_seen_subcommand_from svg" -l busy -d 'GPUs in use, such as 0,3-5' -r
complete -c tessera -n "__fish_tessera_using_subcommand topology; and __fish_seen_subcommand_from svg" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand topology; and __fish_seen_subcommand_from svg" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand lint" -l topology -d 'A named system, a file with matrix = [[…]] or [[nodes]] as `tessera discover` writes it, or a node' -r
complete -c tessera -n "__fish_tessera_using_subcommand lint" -l pattern -d 'ring, tree, chain, star, all, none, ring+tree, or file:PATH with an edge list' -r
complete -c tessera -n "__fish_tessera_using_subcommand lint" -l model -d 'bottleneck, mapa2021, or a file that `tessera fit bandwidth` wrote' -r
complete -c tessera -n "__fish_tessera_using_subcommand lint" -l busy -d 'GPUs in use, such as 0,3-5' -r
complete -c tessera -n "__fish_tessera_using_subcommand lint" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand lint" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand lint" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand fit; and not __fish_seen_subcommand_from bandwidth" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand fit; and not __fish_seen_subcommand_from bandwidth" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand fit; and not __fish_seen_subcommand_from bandwidth" -f -a "bandwidth" -d 'Fit the bandwidth model to measured all-reduce rates'
complete -c tessera -n "__fish_tessera_using_subcommand fit; and __fish_seen_subcommand_from bandwidth" -l topology -d 'A named system, a file with matrix = [[…]] or [[nodes]] as `tessera discover` writes it, or a node' -r
complete -c tessera -n "__fish_tessera_using_subcommand fit; and __fish_seen_subcommand_from bandwidth" -l pattern -d 'The pattern that was measured' -r
complete -c tessera -n "__fish_tessera_using_subcommand fit; and __fish_seen_subcommand_from bandwidth" -l model -d 'The model to beat' -r
complete -c tessera -n "__fish_tessera_using_subcommand fit; and __fish_seen_subcommand_from bandwidth" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand fit; and __fish_seen_subcommand_from bandwidth" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand power; and not __fish_seen_subcommand_from import calibrate fit choose divide simulate status" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and not __fish_seen_subcommand_from import calibrate fit choose divide simulate status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand power; and not __fish_seen_subcommand_from import calibrate fit choose divide simulate status" -f -a "import" -d 'Print a line of counters from a profile of Nsight Compute'
complete -c tessera -n "__fish_tessera_using_subcommand power; and not __fish_seen_subcommand_from import calibrate fit choose divide simulate status" -f -a "calibrate" -d 'Measure applications on a node by Slurm jobs, and fit its power model'
complete -c tessera -n "__fish_tessera_using_subcommand power; and not __fish_seen_subcommand_from import calibrate fit choose divide simulate status" -f -a "fit" -d 'Fit the model of a GPU to counters and measured runs'
complete -c tessera -n "__fish_tessera_using_subcommand power; and not __fish_seen_subcommand_from import calibrate fit choose divide simulate status" -f -a "choose" -d 'Choose the state, and the power cap, for applications on one GPU'
complete -c tessera -n "__fish_tessera_using_subcommand power; and not __fish_seen_subcommand_from import calibrate fit choose divide simulate status" -f -a "divide" -d 'Divide a budget of watts over GPUs'
complete -c tessera -n "__fish_tessera_using_subcommand power; and not __fish_seen_subcommand_from import calibrate fit choose divide simulate status" -f -a "simulate" -d 'Run the paper\'s evaluation on a simulated A100'
complete -c tessera -n "__fish_tessera_using_subcommand power; and not __fish_seen_subcommand_from import calibrate fit choose divide simulate status" -f -a "status" -d 'Show power limits and draw of this node\'s GPUs, and the site\'s power budgets'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from import" -l gpu -d 'The GPU model that it was made on, as `tessera profiles` lists it' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from import" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from import" -l command -d 'Print the profiler\'s command line instead'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from import" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from calibrate" -l apps -d 'The applications' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from calibrate" -l node -d 'The node whose GPUs are measured' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from calibrate" -l design -d 'How many caps' -r -f -a "paper\t'150 to 250 W by 20, as the paper'
small\t'150 and 250 W'"
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from calibrate" -l out -d 'The directory of what was measured, on a file system that the node shares' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from calibrate" -l counters -d 'The counters of the applications; by default those of the site\'s `[power]`' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from calibrate" -l gpus -d 'Measure on these GPUs of the node at the same time, such as 0,2-3; by default on all' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from calibrate" -l caps -d 'The caps, W, instead of the design\'s' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from calibrate" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from calibrate" -l dry-run -d 'Only say what would be measured, and how long that takes'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from calibrate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from fit" -l gpu -d 'The GPU model, as `tessera profiles` lists it' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from fit" -l basis -d 'The functions of the counters: tessera, arima2022 or dcgm' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from fit" -l driver -d 'The driver that the runs were measured under: `tessera doctor` compares it with the nodes\'' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from fit" -l out -d 'Write the model to this file' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from fit" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from fit" -l json -d 'Print the model, JSON'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from fit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from choose" -l model -d 'A model that `tessera power fit` wrote' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from choose" -l counters -d 'The counters of the applications' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from choose" -l apps -d 'The applications, two or more' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from choose" -l cap -d 'The power cap, W' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from choose" -l alpha -d 'The part of its performance alone that each application exceeds' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from choose" -l guard -d 'Whether alpha holds for cautious predictions' -r -f -a "on\t'It holds for cautious predictions; measured combinations are not predicted'
off\t'It holds for the predictions themselves'"
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from choose" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from choose" -l all -d 'Also print all candidates'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from choose" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from choose" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from divide" -l model -d 'A model that `tessera power fit` wrote' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from divide" -l counters -d 'The counters of the applications' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from divide" -l budget -d 'The budget of all GPUs together, W' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from divide" -l groups -d 'Who runs on which GPU' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from divide" -l alpha -d 'The part of its performance alone that each application exceeds' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from divide" -l guard -d 'Whether alpha holds for cautious predictions' -r -f -a "on\t'It holds for cautious predictions; measured combinations are not predicted'
off\t'It holds for the predictions themselves'"
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from divide" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from divide" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from divide" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from simulate" -l figure -d 'Only this figure of the paper: 4, 5, 6 or 8 to 13' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from simulate" -l seed -d 'Seed of the measurement errors' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from simulate" -l noise -d 'Standard deviation of a measurement, as a part of it' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from simulate" -l basis -d 'The functions of the counters: arima2022, tessera or dcgm' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from simulate" -l guard -d 'Whether alpha holds for cautious predictions' -r -f -a "on\t'It holds for cautious predictions; measured combinations are not predicted'
off\t'It holds for the predictions themselves'"
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from simulate" -l csv -d 'Write the rows to this file, CSV' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from simulate" -l svg -d 'Draw the figure to this file, SVG' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from simulate" -l calibration -d 'Write what was measured to counters.csv and runs.csv in this directory, as `tessera power fit` takes them' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from simulate" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from simulate" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from simulate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from status" -l node -d 'The node\'s name' -r
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from status" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from status" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand power; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand profiles" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand profiles" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand profiles" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand check" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile hand-over status realise realize release" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile hand-over status realise realize release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile hand-over status realise realize release" -f -a "reconcile" -d 'Give back what no live job owns'
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile hand-over status realise realize release" -f -a "hand-over" -d 'Leave the node\'s GPUs to Slurm alone, before Tessera is uninstalled'
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile hand-over status realise realize release" -f -a "status" -d 'Show what driver and journal say of the node'
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile hand-over status realise realize release" -f -a "realise" -d 'Create what a placement names, as the prolog does'
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile hand-over status realise realize release" -f -a "realize" -d 'Create what a placement names, as the prolog does'
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile hand-over status realise realize release" -f -a "release" -d 'Take back what a job holds, as the epilog does'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from reconcile" -l node -d 'The node\'s name' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from reconcile" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from reconcile" -l if-dead -d 'Do nothing unless a journalled job has left the node or it takes no jobs with GPUs; for health checks'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from reconcile" -l until-ended -d 'Then wait up to 10 minutes for jobs that Slurm has ended and that still live here, and give back what they have'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from reconcile" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from hand-over" -l node -d 'The node\'s name' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from hand-over" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from hand-over" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from status" -l node -d 'The node\'s name' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from status" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from status" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from status" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realise" -l node -d 'The node\'s name' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realise" -l placement -d 'In the form of TESSERA_PLACEMENT: v1 job=12;n1=mig:3/2g.10gb@4' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realise" -l uid -d 'The job\'s user' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realise" -l gid -d 'The user\'s group' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realise" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realise" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realize" -l node -d 'The node\'s name' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realize" -l placement -d 'In the form of TESSERA_PLACEMENT: v1 job=12;n1=mig:3/2g.10gb@4' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realize" -l uid -d 'The job\'s user' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realize" -l gid -d 'The user\'s group' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realize" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realize" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from release" -l node -d 'The node\'s name' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from release" -l job -d 'The id of the job' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from release" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand completions" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand completions" -l slurm -d 'Complete the --gpu-... options of sbatch, salloc and srun, beside what Slurm\'s own script completes (bash and fish)'
complete -c tessera -n "__fish_tessera_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand man-pages" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand man-pages" -s h -l help -d 'Print help (see more with \'--help\')'
