//! Ends the cluster in the directory given when stdin closes, `remove` also its files: see [`lab::guardian`].

#![forbid(unsafe_code)]

fn main() {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(dir) = args.first() {
        lab::guardian::main(dir.as_ref(), args.len() > 1);
    }
}
