//! Output of Slurm's commands, in which users write some of the cells.

use tessera_cli::parsers;

pub(crate) fn squeue(input: &[u8]) {
    parsers::squeue(input);
    parsers::note(&crate::text(input));
}

pub(crate) fn sacct(input: &[u8]) {
    parsers::sacct(input);
}
