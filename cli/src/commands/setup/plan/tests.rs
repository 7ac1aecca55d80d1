//! Plans for made-up sites: each golden has what an administrator reads.

mod health;

use super::super::conf::ConfFile;
use super::super::discovered::{Discovered, EXAMPLE};
use super::super::marks;
use super::*;

const PLAIN: &str =
    "ClusterName=c\nSelectType=select/cons_tres\nNodeName=n1 CPUs=8\nPartitionName=p Nodes=ALL\n";

fn found(name: &str, text: Option<&str>) -> ConfFile {
    ConfFile { path: Path::new("/etc/slurm").join(name), text: text.map(str::to_owned) }
}

/// A site with this slurm.conf and no other file.
fn site(slurm_conf: &str) -> Files {
    Files {
        slurm: vec![found("slurm.conf", Some(slurm_conf))],
        gres: found("gres.conf", None),
        plugstack: vec![found("plugstack.conf", None)],
        tessera: found("tessera.toml", None),
        health: found("tessera-health", None),
        ..Files::default()
    }
}

/// Tessera below this prefix, for a Slurm of this version.
fn installed(prefix: &str, slurm: &str) -> Installed {
    let prefix = Path::new(prefix);
    Installed {
        slurm: slurm.parse().unwrap(),
        slurm_plugins: Some("/usr/lib/slurm".into()),
        slurm_commands: None,
        plugins: prefix.join("lib/tessera"),
        program: prefix.join("bin/tessera"),
    }
}

fn planned(files: &Files, slurm: &str) -> Plan {
    plan(files, &installed("/usr", slurm), &[Discovered::read(EXAMPLE).unwrap()])
}

/// The plan in words, without the script, which is the same everywhere.
fn said(files: &Files) -> String {
    shown(&planned(files, "24.11.5"))
}

fn shown(plan: &Plan) -> String {
    let mut text = String::new();
    for change in &plan.changes {
        let new = if change.is_new { " (new)" } else { "" };
        text.push_str(&format!("{}{new}\n", change.path.display()));
        if !change.is_program {
            text.push_str(&marks::diff(&change.edits, change.is_new));
        }
    }
    plan.problems.iter().for_each(|problem| text.push_str(&format!("to do: {problem}\n")));
    plan.notes.iter().for_each(|note| text.push_str(&format!("note: {note}\n")));
    text
}

/// A site with the changes made.
fn applied(files: &Files) -> Files {
    killed_after(files, usize::MAX)
}

/// A site after a run that was killed behind so many files.
fn killed_after(files: &Files, written: usize) -> Files {
    let plan = planned(files, "24.11.5");
    assert!(plan.problems.is_empty(), "{:?}", plan.problems);
    let mut files = files.clone();
    for change in plan.changes.iter().take(written) {
        let single = [&mut files.gres, &mut files.tessera, &mut files.health];
        let mut all = files.slurm.iter_mut().chain(&mut files.plugstack).chain(single);
        let file = all.find(|file| file.path == change.path).unwrap();
        file.text = Some(marks::apply(file.text.as_deref(), &change.edits).unwrap());
    }
    files
}

fn undone(file: &ConfFile) -> Option<String> {
    file.text.as_deref().and_then(|text| marks::undo(text).unwrap().text)
}

#[test]
fn a_plain_slurm_gets_everything() {
    insta::assert_snapshot!(said(&site(PLAIN)), @r#"
    /etc/slurm/tessera.toml (new)
           + # Written by `tessera discover` on n1, driver 1.2.
           + [[nodes]]
           + names = "n1"
           + gpu = "a100-40gb"
           + count = 2
           + mig = "dynamic"
    /etc/slurm/gres.conf (new)
           + NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-1]
           + NodeName=n1 Name=shard Count=80
    /etc/slurm/tessera-health (new)
    /etc/slurm/plugstack.conf (new)
           + required /usr/lib/tessera/spank_tessera.so config=/etc/slurm/tessera.toml tessera=/usr/bin/tessera
    /etc/slurm/slurm.conf
         3 - NodeName=n1 CPUs=8
           + NodeName=n1 Gres=gpu:a100:2,shard:80 CPUs=8
      at the end:
           + PluginDir=/usr/lib/tessera:/usr/lib/slurm
           + JobSubmitPlugins=tessera
           + PrologFlags=Alloc
           + GresTypes=gpu,shard
           + HealthCheckProgram=/etc/slurm/tessera-health
           + HealthCheckInterval=60
           + HealthCheckNodeState=ANY
    "#);
}

#[test]
fn what_a_site_has_stays() {
    let mut files = site(
        "SelectType=select/cons_tres\nPluginDir=/opt/slurm/lib/slurm:/opt/site\nJobSubmitPlugins=lua,require_timelimit # ours\n\
         PrologFlags=Contain,X11\nGresTypes=gpu\nHealthCheckProgram=/usr/sbin/nhc\nProlog=/etc/slurm/prolog.d/*\n\
         Epilog=/etc/slurm/epilog\nPrologSlurmctld=/etc/slurm/ctl\nInclude nodes.conf\n",
    );
    files
        .slurm
        .push(found("nodes.conf", Some("NodeName=DEFAULT Gres=gpu:a100:2\nNodeName=n1 \\\n  CPUs=8\n")));
    files.gres.text = Some("AutoDetect=nvml\n".to_owned());
    files.plugstack[0].text = Some("# site\nrequired /usr/lib/slurm/spank_pyxis.so\n".to_owned());
    files.tessera.text = Some("[defaults]\ngpu_mem = \"5G\"\n".to_owned());
    insta::assert_snapshot!(said(&files), @r#"
    /etc/slurm/tessera.toml
      at the end:
           + # Written by `tessera discover` on n1, driver 1.2.
           + [[nodes]]
           + names = "n1"
           + gpu = "a100-40gb"
           + count = 2
           + mig = "dynamic"
    /etc/slurm/gres.conf
      at the end:
           + NodeName=n1 Name=shard Count=80
    /etc/slurm/plugstack.conf
         2 + required /usr/lib/tessera/spank_tessera.so config=/etc/slurm/tessera.toml tessera=/usr/bin/tessera
    /etc/slurm/nodes.conf
         2 - NodeName=n1 \
           -   CPUs=8
           + NodeName=n1 Gres=gpu:a100:2,shard:80 \
           +   CPUs=8
    /etc/slurm/slurm.conf
         2 - PluginDir=/opt/slurm/lib/slurm:/opt/site
           + PluginDir=/usr/lib/tessera:/opt/slurm/lib/slurm:/opt/site
         3 - JobSubmitPlugins=lua,require_timelimit # ours
           + JobSubmitPlugins=lua,require_timelimit,tessera # ours
         5 - GresTypes=gpu
           + GresTypes=gpu,shard
    note: /etc/slurm/gres.conf: AutoDetect stays as it is: slurmd finds the GPUs of n1 by itself, as whole GPUs even while jobs have instances of them, and Tessera adds the shards alone
    note: /etc/slurm/plugstack.conf:2: pyxis stays. Tessera's line comes before it, so that a container gets the devices that Tessera has set
    note: JobSubmitPlugins: lua,require_timelimit stays and runs first; tessera comes last, so that it rules on the job as the others leave it
    note: /etc/slurm/slurm.conf:6: HealthCheckProgram=/usr/sbin/nhc stays, because Slurm has room for one: have it run what tessera-health runs, `tessera node reconcile --if-dead` and `tessera node health`, both in the background and in a session of their own
    note: /etc/slurm/slurm.conf:7: Prolog=/etc/slurm/prolog.d/* stays: slurmd runs it after Tessera's prolog, when the job has its GPUs: it must not switch MIG modes or reset GPUs
    note: /etc/slurm/slurm.conf:8: Epilog=/etc/slurm/epilog stays: slurmd runs it after Tessera's epilog, when the GPUs may have the next job: it must not switch MIG modes or reset GPUs
    note: /etc/slurm/slurm.conf:9: PrologSlurmctld=/etc/slurm/ctl stays: it runs on slurmctld's machine, where Tessera does nothing at a job's start
    "#);
}

#[test]
fn a_directory_of_parts_gets_a_file() {
    let mut files = site(&format!("{PLAIN}SlurmctldParameters=idle_on_node_suspend\n"));
    files.plugstack[0].text = Some("include /etc/slurm/plugstack.conf.d/*\n".to_owned());
    files.plugstack.push(found("plugstack.conf.d/pyxis.conf", Some("required spank_pyxis.so\n")));
    files.plugstack_part = Some("/etc/slurm/plugstack.conf.d/10-tessera.conf".into());
    let text = said(&files);
    assert!(
        text.contains(
            "plugstack.conf.d/10-tessera.conf (new)\n       + required /usr/lib/tessera/spank_tessera.so "
        ),
        "{text}"
    );
    assert!(text.contains("note: /etc/slurm/plugstack.conf.d/pyxis.conf:1: pyxis stays"), "{text}");
    // The file may be there already, with other lines.
    let part = "plugstack.conf.d/10-tessera.conf";
    files.plugstack.push(found(part, Some("# kept\n")));
    let text = said(&files);
    assert!(
        text.contains(&format!(
            "/etc/slurm/{part}\n  at the end:\n       + required /usr/lib/tessera/spank_tessera.so "
        )),
        "{text}"
    );
    files.plugstack.pop();
    // Slurm does not send what a path with directories includes.
    files.slurm[0].text = Some(format!("{PLAIN}SlurmctldParameters=enable_configless\n"));
    let text = said(&files);
    assert!(
        text.contains("/etc/slurm/plugstack.conf\n     1 + required /usr/lib/tessera/spank_tessera.so "),
        "{text}"
    );
    assert!(text.contains("put both on every node"), "{text}");
    // Slurm's plugins may be elsewhere on a machine that is sent this line.
    assert!(text.contains("make /usr/lib/slurm a link to them"), "{text}");
    files.slurm[0].text.as_mut().unwrap().push_str("PluginDir=/usr/lib/slurm\n");
    assert!(!said(&files).contains("a link to them"));
}

#[test]
fn a_node_without_files_gets_tesseras_own() {
    let mut files = site("");
    files.slurm.clear();
    files.plugstack.clear();
    files.is_configless = true;
    insta::assert_snapshot!(said(&files), @r#"
    /etc/slurm/tessera.toml (new)
           + # Written by `tessera discover` on n1, driver 1.2.
           + [[nodes]]
           + names = "n1"
           + gpu = "a100-40gb"
           + count = 2
           + mig = "dynamic"
    /etc/slurm/tessera-health (new)
    note: this node gets slurm.conf, gres.conf and plugstack.conf from slurmctld: run `tessera discover --format all > FILE` here and `tessera setup --from FILE` on slurmctld's machine
    "#);
}

#[test]
fn a_second_run_finds_nothing_and_every_byte_comes_back() {
    let mut files =
        site("SelectType=select/cons_tres\nJobSubmitPlugins=lua\nNodeName=n[1-1] CPUs=8 Gres=gpu:2,shard:9");
    files.gres.text = Some("# none\n\n".to_owned());
    files.plugstack[0].text = Some("optional /usr/lib/slurm/spank_pyxis.so".to_owned());
    let once = applied(&files);
    let plan = planned(&once, "24.11.5");
    assert_eq!((&plan.changes, &plan.problems), (&Vec::new(), &Vec::new()));
    for (before, after) in [
        (&files.slurm[0], &once.slurm[0]),
        (&files.gres, &once.gres),
        (&files.plugstack[0], &once.plugstack[0]),
    ] {
        assert_ne!(before.text, after.text);
        assert_eq!(before.text, undone(after));
    }
    assert_eq!((undone(&once.tessera), undone(&once.health)), (None, None));
}

#[test]
fn a_run_that_was_killed_is_finished_by_the_next() {
    let mut files = site(&format!("{PLAIN}JobSubmitPlugins=lua\nInclude nodes.conf\n"));
    files.slurm.push(found("nodes.conf", Some("GresTypes=gpu\n")));
    files.gres.text = Some("AutoDetect=nvml\n".to_owned());
    let whole = applied(&files);
    let texts = |files: &Files| {
        let single = [&files.gres, &files.tessera, &files.health];
        files.slurm.iter().chain(&files.plugstack).chain(single).cloned().collect::<Vec<ConfFile>>()
    };
    let all = planned(&files, "24.11.5").changes.len();
    assert_eq!(all, 6);
    for written in 0..=all {
        let half = killed_after(&files, written);
        assert_eq!(texts(&applied(&half)), texts(&whole), "after {written} files");
        // Until the last file, Slurm does not load Tessera into slurmctld.
        assert_eq!(half.slurm[0].text.as_ref().unwrap().contains(",tessera\n"), written == all);
    }
}

#[test]
fn a_line_that_a_person_changed_is_corrected_by_a_person() {
    let mut files = site(&format!("{PLAIN}PluginDir=/usr/lib/slurm\n"));
    let mut once = applied(&files);
    let installed = once.slurm[0].text.as_mut().unwrap();
    *installed = installed.replace("Gres=gpu:a100:2,shard:80", "Gres=gpu:a100:2,shard:80 Weight=5");
    // A person has changed the line of the node: it is right, and stays.
    assert_eq!(planned(&once, "24.11.5").changes, []);
    files = once;
    files.slurm[0].text = files.slurm[0].text.clone().map(|text| text.replace("shard:80 ", "shard:81 "));
    let plan = planned(&files, "24.11.5");
    let why = marks::apply(files.slurm[0].text.as_deref(), &plan.changes[0].edits).unwrap_err();
    assert!(why.1.contains("was edited by hand"), "{why:?}");
}

#[test]
fn another_prefix_replaces_what_setup_wrote() {
    let mut files = site(&format!("{PLAIN}PluginDir=/usr/lib/slurm\n"));
    files.plugin_dirs_of_tessera = vec!["/usr/lib/tessera".to_owned()];
    let once = applied(&files);
    let moved = |files: &Files| shown(&plan(files, &installed("/opt/t", "24.11.5"), &[]));
    insta::assert_snapshot!(moved(&once), @r"
    /etc/slurm/tessera-health
    /etc/slurm/plugstack.conf
         2 - required /usr/lib/tessera/spank_tessera.so config=/etc/slurm/tessera.toml tessera=/usr/bin/tessera
           + required /opt/t/lib/tessera/spank_tessera.so config=/etc/slurm/tessera.toml tessera=/opt/t/bin/tessera
    /etc/slurm/slurm.conf
        10 - PluginDir=/usr/lib/tessera:/usr/lib/slurm
           + PluginDir=/opt/t/lib/tessera:/usr/lib/slurm
    ");
    // What a person wrote or changed stays, and is named.
    let mut by_hand = once.clone();
    by_hand.slurm[0].text = Some("PluginDir=/opt/t/lib/tessera:/usr/lib/slurm\nGresTypes=gpu,shard\nJobSubmitPlugins=job_submit/tessera\n\
                                 SelectType=select/cons_tres\nPrologFlags=Alloc\nHealthCheckProgram=/etc/slurm/tessera-health\n".to_owned());
    by_hand.plugstack[0].text =
        Some("required spank_tessera.so config=/etc/tessera.toml notice=off\n".to_owned());
    by_hand.health.text = by_hand.health.text.map(|text| text.replace("setsid", "nice setsid"));
    insta::assert_snapshot!(moved(&by_hand), @r"
    note: /etc/slurm/tessera-health stays, because it was written or changed by hand: it does not run /opt/t/bin/tessera
    note: /etc/slurm/plugstack.conf:1: this line has config=/etc/tessera.toml, and stays. `tessera setup` would write config=/etc/slurm/tessera.toml: correct it by hand if it is another file
    ");
}

/// An earlier `tessera setup` wrote the plugin without its directory.
#[test]
fn a_plugin_without_its_directory_stays() {
    let mut files = applied(&site(PLAIN));
    let line = "required spank_tessera.so config=/etc/slurm/tessera.toml tessera=/usr/bin/tessera";
    files.plugstack[0].text = Some(marks::apply(None, &[Edit::add(&[line.to_owned()])]).unwrap());
    assert_eq!(planned(&files, "24.11.5").changes, []);
    assert_eq!(undone(&files.plugstack[0]), None);
}

#[test]
fn a_node_has_the_default_that_comes_before_it() {
    let with = |gpus: u32| {
        format!(
            "NodeName=DEFAULT Gres=gpu:a100:{gpus},shard:80\nNodeName=DEFAULT CPUs=8\nNodeName=n1\nNodeName=DEFAULT Gres=gpu:h100:4\n"
        )
    };
    let rest = PLAIN.replace("NodeName=n1 CPUs=8\n", "");
    let mut files = site(&format!("{rest}Include nodes.conf\nNodeName=DEFAULT Gres=gpu:8\n"));
    files.slurm.push(found("nodes.conf", Some(&with(2))));
    let plan = planned(&files, "24.11.5");
    assert!(plan.problems.is_empty(), "{:?}", plan.problems);
    assert!(plan.changes.iter().all(|change| !change.path.ends_with("nodes.conf")), "{}", shown(&plan));
    files.slurm[1].text = Some(with(3));
    let why = "/etc/slurm/nodes.conf:3: Gres=gpu:a100:3,shard:80 has 3 GPUs, the driver finds 2: correct it, then run this again";
    assert_eq!(planned(&files, "24.11.5").problems, [why]);
}

#[test]
fn a_part_of_tessera_toml_in_a_file_of_its_own_is_read() {
    let mut files = site(PLAIN);
    let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\ndiscovered = \"n1.links\"\n";
    files.tessera.text = Some(text.to_owned());
    let problems = |files: &Files| planned(files, "24.11.5").problems.join("\n");
    assert!(problems(&files).contains("tessera.toml has errors"), "{}", problems(&files));
    files
        .parts_of_tessera
        .insert("n1.links".to_owned(), "[[nodes]]\nmatrix = [[0, 25], [25, 0]]\n".to_owned());
    assert_eq!(problems(&files), "");
}

#[test]
fn what_cannot_be_done_is_said() {
    let problems = |files: &Files, slurm: &str| planned(files, slurm).problems.join("\n");
    let without = PLAIN.replace("SelectType=select/cons_tres\n", "");
    assert_eq!(problems(&site(&without), "24.11.5"), "");
    let mut files = site(&format!("{without}NodeName=n[1-2] Gres=gpu:a100:2\nJobSubmitPlugins+=lua\n"));
    files.gres.text = Some("Name=gpu File=/dev/nvidia[0-3]\n".to_owned());
    files.tessera.text = Some("[[nodes]]\nnames = \"n1\"\ngpu = \"a100-90gb\"\ncount = 2\n".to_owned());
    insta::assert_snapshot!(problems(&files, "22.05.8"), @r#"
    /etc/slurm/tessera.toml has errors, `tessera check` shows them all: /etc/slurm/tessera.toml:3:8: unknown GPU model "a100-90gb" (did you mean a100-40gb? `tessera profiles` lists all models)
    /etc/slurm/gres.conf: it has 4 GPUs for n1, which has 2: correct its File=, then run this again
    SelectType=select/linear, Slurm's default, gives no GPUs by the piece: set SelectType=select/cons_tres and SelectTypeParameters=CR_Core_Memory, restart slurmctld while no job runs, then run this again
    /etc/slurm/slurm.conf:5: this line cannot be changed safely: make it JobSubmitPlugins=lua,tessera by hand, then run this again
    /etc/slurm/slurm.conf:4: this line is for n[1-2], and only n1 was looked at: if all have these GPUs, run `tessera setup --node 'n[1-2]'`, else give n2 lines of their own
    "#);
    let mut files = site(&PLAIN.replace("n1 ", "n1 Gres=gpu:8 "));
    files.gres.text = Some("Name=gpu File=/dev/nvidia[0-1]\nName=shard Count=8\n".to_owned());
    insta::assert_snapshot!(problems(&files, "24.11.5"), @r"
    /etc/slurm/gres.conf: it has 8 shards for n1, whose GPUs come to 80: correct Count= of its shards, then run this again
    /etc/slurm/slurm.conf:3: Gres=gpu:8 has 8 GPUs, the driver finds 2: correct it, then run this again
    ");
    let run_in_job = problems(&site(&format!("{PLAIN}PrologFlags=Contain,RunInJob\n")), "24.11.5");
    assert!(run_in_job.contains("take RunInJob out"), "{run_in_job}");
    let missing = problems(&site("SelectType=select/cons_tres\n"), "24.11.5");
    assert!(missing.contains("no NodeName= of slurm.conf has n1"), "{missing}");
}

#[test]
fn a_controller_without_gpus_needs_the_nodes_words() {
    let installed = Installed { slurm_plugins: None, ..installed("/usr", "24.11.5") };
    let plan = plan(&site(PLAIN), &installed, &[]);
    assert!(plan.problems[0].contains("tessera setup --from FILE"), "{:?}", plan.problems);
    assert!(
        plan.problems[1].contains("the directory of Slurm's own plugins is not found"),
        "{:?}",
        plan.problems
    );
}

#[test]
fn a_site_whose_jobs_have_their_own_shm_is_told_that_mps_fails_there() {
    let noted = |setting: &str, file: Option<&str>| {
        let mut files = site(&format!("{PLAIN}{setting}"));
        files.job_namespace = Some(found("job_container.conf", file));
        planned(&files, "24.11.5").notes.join("\n")
    };
    let tmpfs = "JobContainerType=job_container/tmpfs\n";
    assert_eq!(noted(tmpfs, Some("BasePath=/nvme Dirs=/tmp\n")), "");
    assert_eq!(noted("JobContainerType=job_container/none\n", None), "");
    let own = noted(tmpfs, Some("BasePath=/nvme\n"));
    assert!(own.starts_with("n1: JobContainerType=job_container/tmpfs gives each job a /dev/shm"), "{own}");
    assert!(noted(tmpfs, None).contains("unless job_container.conf there leaves /dev/shm out"));
}
