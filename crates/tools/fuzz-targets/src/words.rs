//! Words of command lines and of Slurm's options.

use admission::gres_list::{gpu_bind, with_gpus_of};
use case_study::Node;
use power::Cap;
use power_study::State;
use protocol::time::{parse_millis, parse_utc, utc};
use protocol::{SetWait, moldable};
use site_config::hostlist;
use site_limits::slices::{names_slices, names_slices_per_task, slices_in, with_slices};
use site_limits::tres::Tres;
use topology::Selection;

use crate::text;

/// Longest word that Slurm or a shell is expected to pass on; host lists may name thousands of nodes.
const LONGEST: usize = 200;

pub(crate) fn words(input: &[u8]) {
    let text = text(input);
    let word = text.lines().next().unwrap_or_default();
    if let Ok(node) = Node::parse(word) {
        assert!(node.workers("tessera") > 0, "{word}");
    }
    if let Ok(state) = word.parse::<State>() {
        assert_eq!(state.to_string().parse::<State>().as_ref(), Ok(&state), "{word}");
    }
    let _ = word.parse::<Cap>();
    let _ = SetWait::parse(word);
    let _ = moldable::parse_times(word);
    let _ = (Selection::parse(word), parse_millis(word));
    if let Some(seconds) = parse_utc(word) {
        assert_eq!(utc(seconds), word);
    }
    let list = || Some(word.to_owned());
    let tres =
        Tres { per_job: list(), per_node: list(), per_socket: list(), per_task: list(), tasks_per_gpu: None };
    assert!(tres.gpu_entries().iter().all(|entry| entry.text.chars().count() <= 60), "{word}");
    let _ = (gpu_bind(word), with_gpus_of(word, "gres:gpu:1"), names_slices_per_task(word));
    // A user's licenses, among which no slices stay but those that are counted.
    if let Some(none) = with_slices(word, 0) {
        assert!(!names_slices(&none), "{word}: {none}");
        assert_eq!(slices_in(&none), 0, "{word}");
    }
    if word.len() <= LONGEST
        && let Ok(names) = hostlist::expand(word)
    {
        assert_eq!(hostlist::expand(&hostlist::compress(&names)), Ok(names), "{word}");
    }
}
