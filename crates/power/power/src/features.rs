//! F1 to F8: the hardware counters of one application, and which tools give them (Arima et al., Table 3).

/// Names F1 to F8 as files have them.
pub const COUNTERS: [&str; 8] = ["f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"];

/// Holds F1 to F8 of one application, percent.
pub type Features = [f64; 8];

/// Lists the sources without F2 and F4: their lines leave these empty.
pub const PARTIAL_SOURCES: [&str; 2] = ["dcgm", "gpm"];
