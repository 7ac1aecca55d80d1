//! Ends the cluster in the directory given when stdin closes: see [`e2e::guardian`].

fn main() {
    if let Some(dir) = std::env::args_os().nth(1) {
        e2e::guardian::main(dir.as_ref());
    }
}
