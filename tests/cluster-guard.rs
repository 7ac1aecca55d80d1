//! Ends a cluster when stdin closes: see [`lab::guardian`]. Arguments: the cluster's directory, and `remove` to remove it.

#![forbid(unsafe_code)]

fn main() {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(dir) = args.first() {
        lab::guardian::main(dir.as_ref(), args.len() > 1);
    }
}
