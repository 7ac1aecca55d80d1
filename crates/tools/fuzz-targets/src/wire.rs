//! The strings that travel with a job.

use geometry::{GpuIndex, Model};
use job_options::{Opt, Renames, Source, Spec, Typed};
use node_layout::parse_layout;
use protocol::node_word::{Extra, NodeWord};
use protocol::set_summary::on_node;
use protocol::wire::{MAX_WHY, encode_placement, encode_request, parse_placement, parse_request, plain_why};
use protocol::{AdminComment, Said, Started};

use crate::text;

/// Lines of `option=value`, each typed in one of three places; `file` options read the rest of the input.
pub(crate) fn options(input: &[u8]) {
    let text = text(input);
    let mut typed = Typed::new();
    let places = [Source::Script, Source::Env, Source::CommandLine];
    for (at, line) in text.lines().enumerate() {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let opt = Spec::by_name(name).map_or(Opt::Isolation, |spec| spec.opt);
        typed.push(opt, value, places[at % places.len()]);
    }
    let read = |_: &str| Ok(text.clone());
    match typed.request(&Renames::new(), &read) {
        Ok(Some(request)) => {
            let sent = encode_request(&request);
            assert_eq!(parse_request(&sent).as_ref(), Ok(&request), "{sent}");
        }
        Ok(None) => {}
        Err(refusals) => assert!(!refusals.is_empty()),
    }
}

pub(crate) fn request(input: &[u8]) {
    if let Ok(request) = parse_request(&text(input)) {
        let sent = encode_request(&request);
        assert_eq!(parse_request(&sent), Ok(request), "{sent}");
    }
}

fn a100(_node: &str, gpu: GpuIndex) -> Option<&'static Model> {
    Model::find("a100-40gb").filter(|_| gpu.0 < 8)
}

pub(crate) fn placement(input: &[u8]) {
    let text = text(input);
    if let Ok(placement) = parse_placement(&text, &a100) {
        let sent = encode_placement(&placement, &a100);
        assert_eq!(parse_placement(&sent, &a100), Ok(placement), "{sent}");
    }
    let why = plain_why(&text);
    assert!(why.len() <= MAX_WHY && !why.contains('\n'), "{why:?}");
    let _ = on_node(&text, "n1");
}

pub(crate) fn layout(input: &[u8]) {
    if let Ok(layout) = parse_layout(&text(input)) {
        let sent = layout.to_string();
        assert_eq!(parse_layout(&sent).as_ref(), Ok(&layout), "{sent}");
    }
}

/// A node's `extra`: what stands before the node's word stays as it is, and slurmctld's judgement of the word is read again as it
/// was written. A node whose word cannot be read is silent.
pub(crate) fn node_word(input: &[u8]) {
    let text = text(input);
    let extra @ Extra { before, word, .. } = Extra::read(&text);
    assert!(text.starts_with(before), "{text:?}");
    let said = word.and_then(NodeWord::said);
    for started in [0, 1, said.map_or(2, |said| said.started)] {
        let standing = Said::judge(said, started, said.map_or(3, |said| said.file));
        let judged = NodeWord::judged(standing, said);
        assert_eq!(judged.standing(), Some(standing), "{text:?}");
        let shown = Extra { word: Some(judged), ..extra }.to_string();
        let again = Extra::read(&shown);
        assert_eq!(
            (again.word, again.sick, again.idle),
            (Some(judged), extra.sick, extra.idle),
            "{text:?}: {shown:?}"
        );
        assert_eq!(again.to_string(), shown, "{text:?}");
        // The layout that is shown does not change with the word.
        let still_before = again.before;
        assert!(still_before == before || before == "tessera", "{text:?}: {shown:?}");
    }
    let _ = parse_layout(before);
}

pub(crate) fn admin_comment(input: &[u8]) {
    let comment = AdminComment::parse(&text(input));
    if let Some(Started { got, .. }) = comment.started() {
        tessera_cli::parsers::only_instance(got);
        assert!(!got.is_empty());
    }
    if let Some(request) = comment.asks.as_deref().and_then(|asks| parse_request(asks).ok()) {
        let _ = comment.plan_for(&request, 1_790_000_000);
    }
}
