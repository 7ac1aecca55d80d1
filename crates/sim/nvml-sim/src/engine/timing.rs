//! How long the driver takes to create and destroy a GPU instance.

use std::time::Duration;

/// Seconds to create and destroy, by compute slices, per architecture: FAR (JPDC 2025), Table 1.
/// Blackwell was not measured there and uses Hopper's.
const A30: &[(u8, f64, f64)] = &[(1, 0.11, 0.10), (2, 0.12, 0.10), (4, 0.13, 0.10)];
const A100: &[(u8, f64, f64)] =
    &[(1, 0.16, 0.20), (2, 0.17, 0.20), (3, 0.20, 0.21), (4, 0.21, 0.21), (7, 0.24, 0.22)];
const H100: &[(u8, f64, f64)] =
    &[(1, 0.16, 0.21), (2, 0.21, 0.23), (3, 0.33, 0.25), (4, 0.38, 0.26), (7, 0.42, 0.26)];

/// Time to create (`create`) or destroy an instance of `slices` compute slices, times `scale`; zero for a scale of 0 or below.
#[must_use]
pub fn duration(model_key: &str, arch: &str, slices: u8, create: bool, scale: f64) -> Duration {
    let table = match arch {
        _ if model_key.starts_with("a30") => A30,
        "ampere" => A100,
        _ => H100,
    };
    let row = table.iter().find(|r| r.0 >= slices).or(table.last());
    let seconds = row.map_or(0.0, |r| if create { r.1 } else { r.2 });
    Duration::try_from_secs_f64((seconds * scale).max(0.0)).unwrap_or_default()
}

/// `NVML_SIM_TIME_SCALE`, else the node's own scale.
#[must_use]
pub fn scale(node_scale: f64) -> f64 {
    std::env::var("NVML_SIM_TIME_SCALE").ok().and_then(|v| v.parse().ok()).unwrap_or(node_scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_fars_table_1() {
        let ms = |key, arch, slices, create| duration(key, arch, slices, create, 1.0).as_millis();
        assert_eq!(ms("a30-24gb", "ampere", 4, true), 130);
        assert_eq!(ms("a100-40gb", "ampere", 7, false), 220);
        assert_eq!(ms("h100-80gb-sxm", "hopper", 3, true), 330);
        assert_eq!(ms("b200-180gb", "blackwell", 1, false), 210);
        assert_eq!(duration("a30-24gb", "ampere", 1, true, 0.0), Duration::ZERO);
        assert_eq!(duration("a30-24gb", "ampere", 1, true, f64::NAN), Duration::ZERO);
    }
}
