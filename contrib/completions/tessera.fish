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
complete -c tessera -n "__fish_tessera_needs_command" -f -a "explain" -d 'Explain what a request would get, and why'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "discover" -d 'Write the configuration for this machine\'s GPUs'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "doctor" -d 'Check that journal, driver, device nodes, MPS and Slurm agree'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "plan" -d 'Plan a batch of tasks on GPUs that repartition'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "profiles" -d 'List GPU models and their MIG profiles'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "check" -d 'Check tessera.toml'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "node" -d 'Do by hand what Slurm\'s prolog and epilog do on a node'
complete -c tessera -n "__fish_tessera_needs_command" -f -a "completions" -d 'Print the completion script of a shell'
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l node -d 'Only these nodes, a hostlist such as n[1-2]' -r
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l from -d 'Read layouts from FILE instead of asking Slurm, - for standard input' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l svg -d 'Write a picture to FILE, - for standard output' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l live -d 'Ask this node\'s driver and journal instead of Slurm, as root'
complete -c tessera -n "__fish_tessera_using_subcommand layout" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand layout" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l node -d 'Ask this node of tessera.toml; without it the first of each set' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l model -d 'Ask a node with GPUs of this model instead of one of tessera.toml' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l count -d 'GPUs of that node' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l links -d 'Interconnect of that node' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l busy -d 'Take the node as this layout says, in the words of sinfo -O extra' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l partition -d 'Hold the request to the limits of this partition' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l account -d 'Hold the request to the limits of this account' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-isolation -d 'auto, mig, mig:PROFILE, mps, whole or none' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-mem -d 'Memory per instance or share, such as 10G' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-instances -d 'MIG instances per node' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-threads -d 'Share of the SMs in percent: the most for mps, the least for mig' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-pattern -d 'How whole GPUs talk to each other: ring, tree, chain, star, all or none' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpu-bandwidth -d 'sensitive or insensitive to the bandwidth between whole GPUs' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l gpus -l gpus-per-node -d 'Whole GPUs per node' -r
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l live -d 'Take nodes as they are now'
complete -c tessera -n "__fish_tessera_using_subcommand explain" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand discover" -l node -d 'Name to write; without it SLURMD_NODENAME or the host name' -r
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
complete -c tessera -n "__fish_tessera_using_subcommand plan" -l gpu -d 'The GPU model, and how many of them' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan" -l tasks -d 'Read tasks from FILE, - for standard input' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan" -l policy -d 'How to plan' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan" -l times -d 'Read how long creating and destroying instances takes from FILE' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan" -l budget -d 'How long the default policy may search, such as 50ms or 2s' -r
complete -c tessera -n "__fish_tessera_using_subcommand plan" -l svg -d 'Write a picture to FILE, - for standard output' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c tessera -n "__fish_tessera_using_subcommand plan" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand plan" -l compare -d 'Print all policies side by side'
complete -c tessera -n "__fish_tessera_using_subcommand plan" -l json -d 'Print one JSON object per batch'
complete -c tessera -n "__fish_tessera_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand profiles" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand profiles" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand profiles" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand check" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile status realise realize release" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile status realise realize release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile status realise realize release" -f -a "reconcile" -d 'Give back what no live job owns'
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile status realise realize release" -f -a "status" -d 'Show the node as driver and journal have it'
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile status realise realize release" -f -a "realise" -d 'Make a placement real, as the prolog does'
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile status realise realize release" -f -a "realize" -d 'Make a placement real, as the prolog does'
complete -c tessera -n "__fish_tessera_using_subcommand node; and not __fish_seen_subcommand_from reconcile status realise realize release" -f -a "release" -d 'Take back what a job has, as the epilog does'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from reconcile" -l node -d 'The node\'s name' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from reconcile" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from reconcile" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from status" -l node -d 'The node\'s name' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from status" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from status" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from status" -l json -d 'Print JSON'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realise" -l node -d 'The node\'s name' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realise" -l placement -d 'As in TESSERA_PLACEMENT: v1 job=12;n1=mig:3/2g.10gb@4' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realise" -l uid -d 'The job\'s user' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realise" -l gid -d 'The user\'s group' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realise" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realise" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realize" -l node -d 'The node\'s name' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realize" -l placement -d 'As in TESSERA_PLACEMENT: v1 job=12;n1=mig:3/2g.10gb@4' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realize" -l uid -d 'The job\'s user' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realize" -l gid -d 'The user\'s group' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realize" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from realize" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from release" -l node -d 'The node\'s name' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from release" -l job -d 'The job' -r
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from release" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand node; and __fish_seen_subcommand_from release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tessera -n "__fish_tessera_using_subcommand completions" -l config -d 'Read this tessera.toml' -r -F
complete -c tessera -n "__fish_tessera_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
