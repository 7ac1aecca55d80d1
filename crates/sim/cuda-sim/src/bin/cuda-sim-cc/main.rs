//! Compiles `.cu` files for the simulated driver: the host side in clang's CUDA mode, the kernels as code for the host.
//!
//! Steps for each file: compile it as device code, for the processor of this machine; find the kernels by their section; compile it
//! again with a caller for each kernel; link that into a shared object, the image; compile the host side with the image as its GPU
//! binary. At run time the driver loads the image and finds kernels in it by name.
#![forbid(unsafe_code)]

mod command_line;
mod compile;
mod kernel;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = command_line::parse(std::env::args().skip(1)).and_then(|options| compile::run(&options));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "cuda-sim-cc: {message}");
            ExitCode::FAILURE
        }
    }
}
