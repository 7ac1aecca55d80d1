//! Keys and screens, as a terminal would show them.

use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::state::{Popup, State, Wish};
use super::view::{View, draw};
use crate::cluster_snapshot::ClusterSnapshot;
use crate::cluster_snapshot::tests::{job, node, seen};
use crate::slurm::squeue::QueuedJob;

fn state() -> State {
    State::new("", "", "").unwrap()
}

fn press(state: &mut State, seen: &ClusterSnapshot, keys: &[KeyCode]) -> Wish {
    let mut wish = Wish::Nothing;
    for key in keys {
        wish = state.press(KeyEvent::new(*key, KeyModifiers::NONE), Some(seen));
    }
    wish
}

fn typed(text: &str) -> Vec<KeyCode> {
    text.chars().map(KeyCode::Char).collect()
}

/// The screen's lines, without blanks at their ends.
fn screen(
    state: &State,
    seen: Option<&ClusterSnapshot>,
    trouble: Option<&str>,
    (width, height): (u16, u16),
) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let view = View { state, seen, trouble, now: 10_005, colour: false };
    terminal.draw(|frame| draw(frame, view)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y: u16| {
        let cells: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        cells.trim_end().to_owned()
    };
    (0..height).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_held_job_waits_like_others() {
    let mut seen = seen();
    for job in seen.jobs.iter_mut().filter(|job| job.id == 21) {
        job.state = "REQUEUE_HOLD".to_owned();
    }
    let shown = screen(&state(), Some(&seen), None, (80, 16));
    assert!(shown.contains("2 running 2 waiting"), "{shown}");
    let line = shown.lines().find(|line| line.contains(" 21 ")).unwrap();
    assert!(line.contains("requeue_") && line.ends_with("Resources"), "{line}");
}

#[test]
fn eighty_columns_hold_everything() {
    assert_snapshot!(screen(&state(), Some(&seen()), None, (80, 16)), @r"
    11/28 slices free  2 running 2 waiting  3/4 nodes  5 s ago

    NODES 4, as in tessera.toml    = job  - idle  · free  × Slurm's  ! unhealthy
    >n1  3g======--······
     n2  whole===========
     n3! ················ ················
     n4  ········ m=======

     JOB      USER       STATE     ASKED FOR    FOR         WHERE/WHY (by priority)
     21       bob        pending   mps 5.0 GB   17 min      Resources
     20       alice      pending   4g.20gb      17 min      Resources
     11       alice      running   3g.20gb      11 min
     13       bob        running   1 GPU        11 min


    Tab pane  ↑↓ move  Enter open  c cancel  s sort  u p n filter  ? keys  q quit
    ");
}

#[test]
fn a_pane_leaves_the_other_what_it_does_not_need() {
    let (seen, many) = (seen(), large());
    let heights = |seen: &ClusterSnapshot, height| {
        let shown = screen(&state(), Some(seen), None, (80, height));
        let jobs = shown.lines().position(|line| line.starts_with(" JOB")).unwrap();
        (jobs, shown.lines().filter(|line| line.contains(" alice ") || line.contains(" bob ")).count())
    };
    // Four nodes and their title from line 2 on, a blank line, then the jobs.
    assert_eq!(heights(&seen, 40), (8, 4));
    let busy = ClusterSnapshot {
        jobs: (100..160).map(|id| job(id, "bob", "RUNNING", "iso=whole gpus=1")).collect(),
        ..seen
    };
    assert_eq!(heights(&busy, 40), (8, 30));
    // Each node needs more than there is, and the four jobs only their lines.
    let mut each = state();
    each.grouped = Some(false);
    let shown = screen(&each, Some(&many), None, (80, 40));
    assert_eq!(shown.lines().position(|line| line.starts_with(" JOB")), Some(34), "{shown}");
}

#[test]
fn two_hundred_columns_are_used() {
    assert_snapshot!(screen(&state(), Some(&seen()), None, (200, 8)), @r"
    tessera top: 11 of 28 compute slices free on 4 GPUs of 3 of the 4 nodes. 2 jobs running, 2 waiting. Seen 5 s ago.

    NODES 4, as in tessera.toml    = job  - idle  · free  × Slurm's  ! unhealthy                          JOB      USER       STATE     ASKED FOR    FOR         WHERE/WHY (by priority)
    >n1  3g======--······                                                                                 21       bob        pending   mps 5.0 GB   17 min      Resources
     n2  whole===========                                                                                 20       alice      pending   4g.20gb      17 min      Resources
     n3! ················ ················                                                                11       alice      running   3g.20gb      11 min
     n4  ········ m=======                                                                                13       bob        running   1 GPU        11 min
    Tab pane  ↑↓ move  Enter open  c cancel  s sort  u p n filter  ? keys  q quit
    ");
}

fn large() -> ClusterSnapshot {
    let line = |i: usize| match i % 3 {
        0 => "tessera gpu0-7=free".to_owned(),
        1 => format!("tessera gpu0=whole[job{i}] gpu1=mig[3g.20gb@0:job{i}] gpu2-7=free"),
        _ => format!("tessera gpu0-7=whole[job{i}]"),
    };
    let node = |i: usize| node(&format!("n{i}"), "gpu", i != 7, &["a100-40gb"; 8], &line(i));
    ClusterSnapshot { nodes: (1..=600).map(node).collect(), ..seen() }
}

#[test]
fn hundreds_of_nodes_are_groups() {
    let (mut state, seen) = (state(), large());
    assert_snapshot!(screen(&state, Some(&seen), None, (80, 14)), @r"
    20354/33544 slices free  2 running 2 waiting  599/600 nodes  5 s ago

    NODES 600, most free first    · free  ▄ partly  █ full  × Slurm's
    >  200 n[3,6,9,12,15,18,21,24,27,30,33… ········ 11200/11200 free; 8 x a100-40gb
       199 n[1,4,10,13,16,19,22,25,28,31,3… ······▄█ 9154/11144 free; 8 x a100-40gb
       200 n[2,5,8,11,14,17,20,23,26,29,32… ████████ 0/11200 free; 8 x a100-40gb
         1 n7                               ······▄█ takes no jobs; 8 x a100-40gb

     JOB      USER       STATE     ASKED FOR    FOR         WHERE/WHY (by priority)
     21       bob        pending   mps 5.0 GB   17 min      Resources
     20       alice      pending   4g.20gb      17 min      Resources
     11       alice      running   3g.20gb      11 min
     13       bob        running   1 GPU        11 min
    Tab pane  ↑↓ move  Enter open  c cancel  s sort  u p n filter  ? keys  q quit
    ");
    // Each node again, and the first ones in 80 columns.
    press(&mut state, &seen, &[KeyCode::Char('g'), KeyCode::Down]);
    assert_snapshot!(screen(&state, Some(&seen), None, (80, 14)), @r"
    20354/33544 slices free  2 running 2 waiting  599/600 nodes  5 s ago

    NODES 600, as in tessera.toml    = job  - idle  · free  × Slurm's  ! unhealthy
     n1    whole=== 3g==···· ········ ········ ········ ········ ········ ········
    >n2    whole=== whole=== whole=== whole=== whole=== whole=== whole=== whole===
     n3    ········ ········ ········ ········ ········ ········ ········ ········
     n4    whole=== 3g==···· ········ ········ ········ ········ ········ ········
     n5    whole=== whole=== whole=== whole=== whole=== whole=== whole=== whole===
     JOB      USER       STATE     ASKED FOR    FOR         WHERE/WHY (by priority)
     21       bob        pending   mps 5.0 GB   17 min      Resources
     20       alice      pending   4g.20gb      17 min      Resources
     11       alice      running   3g.20gb      11 min
     13       bob        running   1 GPU        11 min
    Tab pane  ↑↓ move  Enter open  c cancel  s sort  u p n filter  ? keys  q quit
    ");
}

#[test]
fn a_row_opens() {
    let (mut state, mut seen) = (state(), seen());
    seen.name_users();
    assert_eq!(
        press(&mut state, &seen, &[KeyCode::Down, KeyCode::Down, KeyCode::Down, KeyCode::Enter]),
        Wish::Nothing
    );
    assert_eq!(state.popup, Some(Popup::Nodes(vec!["n4".to_owned()])));
    assert_snapshot!(screen(&state, Some(&seen), None, (80, 16)), @r"
    11/28 slices free  2 running 2 waiting  3/4 nodes  5 s ago

    NODES┌ n4 ────────────────────────────────────────────────────────────────┐y
     n1  │ n4: partition gpu, links pcie                                      │
     n2  │   GPU 0 t4-16gb: free                                              │
     n3! │   GPU 1 t4-16gb: mps 13 (bob, 4.0 GB, 25 %)                        │
    >n4  └ ↑↓ scroll, Esc closes ─────────────────────────────────────────────┘

     JOB      USER       STATE     ASKED FOR    FOR         WHERE/WHY (by priority)
     21       bob        pending   mps 5.0 GB   17 min      Resources
     20       alice      pending   4g.20gb      17 min      Resources
     11       alice      running   3g.20gb      11 min
     13       bob        running   1 GPU        11 min


    Tab pane  ↑↓ move  Enter open  c cancel  s sort  u p n filter  ? keys  q quit
    ");
    press(&mut state, &seen, &[KeyCode::Esc]);
    assert_eq!(state.popup, None);
}

#[test]
fn a_job_is_explained() {
    let (mut state, seen) = (state(), seen());
    let wish = press(&mut state, &seen, &[KeyCode::Tab, KeyCode::Enter]);
    // The highest priority waits first.
    assert_eq!(wish, Wish::Explain(21));
    assert!(screen(&state, Some(&seen), None, (80, 16)).contains("asking Slurm"));
    state.told(20, "another".to_owned());
    state.told(21, "job 21 of bob asks for a share of 5.0 GB\n".to_owned());
    let shown = screen(&state, Some(&seen), None, (80, 16));
    assert!(shown.contains("Job 21") && shown.contains("asks for a share of 5.0 GB"), "{shown}");
    press(&mut state, &seen, &[KeyCode::Esc]);
    state.told(21, "late".to_owned());
    assert_eq!(state.popup, None);
}

#[test]
fn the_last_row_opens_after_those_behind_it_have_gone() {
    let (mut state, mut seen) = (state(), seen());
    press(&mut state, &seen, &[KeyCode::End, KeyCode::Tab, KeyCode::End]);
    seen.nodes.truncate(2);
    seen.jobs.retain(|job| job.id == 11);
    assert_eq!(press(&mut state, &seen, &[KeyCode::Enter]), Wish::Explain(11));
    press(&mut state, &seen, &[KeyCode::Esc, KeyCode::Tab, KeyCode::Enter]);
    assert_eq!(state.popup, Some(Popup::Nodes(vec!["n2".to_owned()])));
}

#[test]
fn a_job_is_cancelled_after_a_question() {
    let (mut state, seen) = (state(), seen());
    // Only a job can be cancelled, and only by y.
    press(&mut state, &seen, &[KeyCode::Char('c')]);
    assert_eq!(state.popup, None);
    let asked = [KeyCode::Tab, KeyCode::End, KeyCode::Char('c')];
    assert_eq!(press(&mut state, &seen, &asked), Wish::Nothing);
    assert_snapshot!(screen(&state, Some(&seen), None, (80, 16)), @r"
    11/28 slices free  2 running 2 waiting  3/4 nodes  5 s ago

    NODES┌ Cancel a job ──────────────────────────────────────────────────────┐y
     n1  │ Job 13 of bob runs for 10 min.                                     │
     n2  │                                                                    │
     n3! │ scancel 13?  y cancels it, n leaves it                             │
     n4  └ y yes, n no ───────────────────────────────────────────────────────┘

     JOB      USER       STATE     ASKED FOR    FOR         WHERE/WHY (by priority)
     21       bob        pending   mps 5.0 GB   17 min      Resources
     20       alice      pending   4g.20gb      17 min      Resources
     11       alice      running   3g.20gb      11 min
    >13       bob        running   1 GPU        11 min


    Tab pane  ↑↓ move  Enter open  c cancel  s sort  u p n filter  ? keys  q quit
    ");
    assert_eq!(
        press(&mut state, &seen, &[KeyCode::Enter, KeyCode::Char('c'), KeyCode::Char('x')]),
        Wish::Nothing
    );
    assert!(state.popup.is_some(), "other keys change nothing");
    assert_eq!(press(&mut state, &seen, &[KeyCode::Char('n')]), Wish::Nothing);
    assert_eq!(state.popup, None);
    assert_eq!(
        press(&mut state, &seen, &[KeyCode::Char('c'), KeyCode::Char('y')]),
        Wish::Cancel("13".to_owned())
    );
    assert_eq!(press(&mut state, &seen, &[KeyCode::Char('y')]), Wish::Nothing, "it is told once");
    state.cancelled("13", "`scancel 13` failed: Access denied".to_owned());
    assert!(screen(&state, Some(&seen), None, (80, 16)).contains("Access denied"));
    press(&mut state, &seen, &[KeyCode::Esc]);
    assert_eq!(state.popup, None);
}

#[test]
fn of_an_array_only_the_tasks_that_wait_are_cancelled() {
    let (mut state, mut seen) = (state(), seen());
    seen.jobs = vec![QueuedJob {
        array: Some((20, "3-9%2".to_owned())),
        ..job(20, "alice", "PENDING", "iso=mig:1g.5gb")
    }];
    let wish = press(&mut state, &seen, &[KeyCode::Tab, KeyCode::Char('c'), KeyCode::Char('y')]);
    assert_eq!(wish, Wish::Cancel("20_[3-9]".to_owned()));
}

#[test]
fn power_is_shown_where_nodes_measure() {
    let mut seen = seen();
    seen.nodes[0].watts = Some(1250);
    seen.nodes[1].watts = Some(400);
    assert!(
        screen(&state(), Some(&seen), None, (80, 16))
            .starts_with("11/28 slices free  2 running 2 waiting  3/4 nodes  5 s ago  1.6 kW\n")
    );
    assert!(
        screen(&state(), Some(&seen), None, (200, 16))
            .contains("2 waiting. Nodes draw 1.6 kW. Seen 5 s ago.")
    );
}

#[test]
fn a_users_name_moves_no_cursor() {
    let mut seen = seen();
    seen.jobs[2].user = "al\u{1b}[2Jice".to_owned();
    assert!(!screen(&state(), Some(&seen), None, (80, 16)).contains('\u{1b}'));
}

#[test]
fn what_is_typed_chooses() {
    let (mut state, seen) = (state(), seen());
    press(&mut state, &seen, &[KeyCode::Char('u')]);
    press(&mut state, &seen, &typed("alicq"));
    assert!(screen(&state, Some(&seen), None, (80, 16)).contains("show user: alicq█"), "q is a letter here");
    press(&mut state, &seen, &[KeyCode::Backspace, KeyCode::Char('e'), KeyCode::Enter]);
    let shown = screen(&state, Some(&seen), None, (80, 16));
    assert!(shown.contains("Shown: user alice") && shown.contains("n1") && !shown.contains("bob"), "{shown}");
    press(&mut state, &seen, &[KeyCode::Char('n')]);
    press(&mut state, &seen, &typed("n[1"));
    press(&mut state, &seen, &[KeyCode::Enter]);
    let shown = screen(&state, Some(&seen), None, (80, 16));
    assert!(
        shown.contains("the list of nodes \"n[1\" has a [ without a ]") && shown.contains("alice"),
        "{shown}"
    );
    press(&mut state, &seen, &[KeyCode::Char('x')]);
    assert!(screen(&state, Some(&seen), None, (80, 16)).contains("bob"));
}

#[test]
fn keys_sort_and_quit() {
    let (mut state, seen) = (state(), seen());
    let order = |state: &State| {
        let shown = screen(state, Some(&seen), None, (80, 20));
        let at = |name: &str| shown.find(&format!("{name} ")).unwrap();
        let mut names = ["n1", "n2", "n3!", "n4"].map(|name| name.trim_end_matches('!'));
        names.sort_by_key(|name| if *name == "n3" { shown.find("n3!").unwrap() } else { at(name) });
        names.join(" ")
    };
    assert_eq!(order(&state), "n1 n2 n3 n4");
    press(&mut state, &seen, &[KeyCode::Char('s')]);
    assert_eq!(order(&state), "n4 n1 n2 n3");
    assert_eq!(press(&mut state, &seen, &[KeyCode::Char('?')]), Wish::Nothing);
    assert!(screen(&state, Some(&seen), None, (80, 24)).contains("groups of nodes that are used alike"));
    assert_eq!(press(&mut state, &seen, &[KeyCode::Char('q')]), Wish::Nothing, "it closes what is open");
    assert_eq!(press(&mut state, &seen, &[KeyCode::Char('q')]), Wish::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.press(interrupt, Some(&seen)), Wish::Quit);
}

#[test]
fn the_chosen_row_stays_in_sight() {
    let (mut state, seen) = (state(), large());
    state.grouped = Some(false);
    press(&mut state, &seen, &[KeyCode::End]);
    let shown = screen(&state, Some(&seen), None, (80, 16));
    assert!(shown.contains(">n600"), "{shown}");
    // Fewer nodes than before: the last one is chosen.
    let few = ClusterSnapshot { nodes: large().nodes.into_iter().take(3).collect(), ..seen };
    assert!(screen(&state, Some(&few), None, (80, 16)).contains(">n3"));
}

#[test]
fn any_size_is_drawn() {
    let (mut state, seen) = (state(), large());
    for popup in [None, Some(Popup::Help), Some(Popup::Nodes(vec!["n1".to_owned()]))] {
        state.popup = popup;
        for size in [(1, 1), (2, 3), (10, 4), (39, 10), (139, 5), (140, 60), (400, 2)] {
            screen(&state, Some(&seen), None, size);
            screen(&state, None, Some("cannot run `scontrol show nodes`"), size);
        }
    }
}
