//! Values that the papers print, and the bars of Fig. 6 as the artifact keeps them (`data/README.md`).
//!
//! Lists of eight are W1 to W8.

/// CASE Table 3: crashed jobs under `cg` in percent, mean of the 16-job and the 32-job mix. By workers (3 and 6, 4 and 8,
/// 5 and 10, 6 and 12), then by mix (1:1, 2:1, 3:1, 5:1): P100, V100.
pub(crate) const TABLE3: [[[f64; 2]; 4]; 4] = [
    [[0.0, 0.0], [3.0, 17.0], [8.0, 17.0], [0.0, 0.0]],
    [[14.0, 13.0], [6.0, 19.0], [6.0, 25.0], [9.0, 13.0]],
    [[13.0, 15.0], [13.0, 25.0], [20.0, 20.0], [22.0, 25.0]],
    [[16.0, 33.0], [17.0, 29.0], [16.0, 38.0], [16.0, 50.0]],
];

/// CASE Table 4: turnaround of single assignment over CASE's, P100 and V100.
pub(crate) const TABLE4: [[f64; 8]; 2] =
    [[4.9, 2.3, 4.9, 4.3, 4.6, 3.2, 3.6, 2.0], [2.4, 2.0, 3.5, 2.6, 3.8, 2.9, 2.9, 2.6]];

/// CASE Table 6: slowdown of kernels in percent, Algorithms 2 and 3.
pub(crate) const TABLE6: [[f64; 8]; 2] =
    [[-0.3, 1.0, 0.3, 4.1, 2.9, 5.1, 1.1, 0.6], [-0.7, 0.8, 7.0, 3.1, 2.2, 4.1, 0.4, 2.9]];

/// CASE Table 7: jobs per second of single assignment, P100 and V100.
pub(crate) const TABLE7_SA: [[f64; 8]; 2] = [
    [0.073, 0.068, 0.083, 0.108, 0.088, 0.099, 0.107, 0.07],
    [0.139, 0.123, 0.17, 0.189, 0.174, 0.184, 0.182, 0.143],
];

/// CASE Table 7: jobs per second of Algorithm 2 on V100.
pub(crate) const TABLE7_ALG2: [f64; 8] = [0.16, 0.13, 0.26, 0.45, 0.28, 0.27, 0.27, 0.2];

/// CASE Fig. 6: throughput of CASE over single assignment, P100 and V100.
pub(crate) const FIG6_CASE: [[f64; 8]; 2] = [
    [1.8129, 2.0055, 2.1517, 2.5307, 2.4608, 2.4613, 1.9102, 1.8225],
    [1.5955, 1.8367, 1.4442, 2.2993, 2.5282, 2.2866, 1.9974, 1.9008],
];

/// CASE Fig. 6: throughput of CG over single assignment, P100 and V100.
pub(crate) const FIG6_CG: [[f64; 8]; 2] = [
    [1.4444, 1.2903, 0.9927, 2.0404, 1.4026, 0.9742, 0.9933, 1.3519],
    [1.9938, 1.2331, 1.0023, 1.791, 1.431, 1.0072, 1.3469, 1.4376],
];

/// Workers of CG in Fig. 6's bars on V100, as the artefact's `Tools/plotting` has them.
pub(crate) const FIG6_CG_WORKERS_V100: [usize; 8] = [12, 6, 4, 12, 6, 4, 6, 6];

/// CASE section 5.2.1: throughput of Algorithm 3 over Algorithm 2, mean over the mixes.
pub(crate) const FIG5_MEAN: f64 = 1.21;

/// CASE section 5.2.3: utilisation in percent of single assignment, CASE and CG.
pub(crate) const FIG7: [(&str, f64); 3] = [("sa", 9.5), ("case", 23.9), ("cg", 9.3)];

/// CASE section 5.3: 128 Darknet jobs over single assignment.
pub(crate) const DARKNET_128: f64 = 2.7;

/// CASE section 5.3: utilisation in percent with eight Darknet jobs, CASE and `SchedGPU`.
pub(crate) const FIG9: [(&str, f64); 2] = [("case", 80.0), ("schedgpu", 23.0)];

/// CASE-MIG Figs. 1 to 3: throughput and turnaround over Slurm, means over the mixed ratios.
pub(crate) const MIG_MEANS: [[f64; 2]; 3] = [[1.45, 1.39], [1.53, 1.48], [1.15, 2.31]];

/// CASE-MIG section 3.2: memory utilisation over Slurm's.
pub(crate) const MIG_UTILISATION: f64 = 2.93;

/// CASE-MIG Table 2: slowdown of kernels in percent.
pub(crate) const MIG_TABLE2: [(&str, f64); 6] =
    [("1:4-A", -1.7), ("0:1-A", 7.5), ("1:4-B", 5.7), ("0:1-B", 0.7), ("1:4-C", 0.4), ("0:1-C", 0.7)];
