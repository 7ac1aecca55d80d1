//! What the Slurm plugins share.
