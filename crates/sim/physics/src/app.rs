//! The applications of the paper: what an iteration needs.

use std::sync::OnceLock;

/// What limits an application (Arima et al., section 5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// TI: the tensor cores.
    Tensor,
    /// CI: other compute units.
    Compute,
    /// MI: memory.
    Memory,
    /// US: neither; it hardly runs faster on more than one GPC.
    Unscalable,
}

/// Precision of the tensor cores that an application uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tensor {
    /// F6.
    Mixed,
    /// F7.
    Double,
    /// F8.
    Integer,
}

/// What an iteration needs. Shares are parts of its time alone on the whole GPU at the highest clock.
#[derive(Clone, Debug, PartialEq)]
pub struct App {
    /// As in Table 7.
    pub name: &'static str,
    /// As in Table 7.
    pub class: Class,
    /// The tensor cores that it uses.
    pub tensor_kind: Option<Tensor>,
    /// Share of the vector units.
    pub vector: f64,
    /// Share of the tensor cores.
    pub tensor: f64,
    /// Share of DRAM.
    pub dram: f64,
    /// Share of L2.
    pub l2: f64,
    /// Hit rate of L2, 0 to 1.
    pub hit: f64,
    /// Part of the hits that are lost without any L2, 0 to 1.
    pub footprint: f64,
    /// Part of the warps that the SMs hold, 0 to 1.
    pub occupancy: f64,
    /// Share during which no unit is busy: launches and latencies.
    pub serial: f64,
    /// Part of `serial` that a lower clock stretches.
    pub clocked: f64,
    /// GPCs that it can fill.
    pub width: f64,
}

const TABLE: &str = include_str!("../data/apps.csv");

/// All 24 applications of Table 7, in its order.
#[must_use]
pub fn apps() -> &'static [App] {
    static APPS: OnceLock<Vec<App>> = OnceLock::new();
    APPS.get_or_init(|| {
        TABLE.lines().filter(|line| !line.starts_with('#')).skip(1).filter_map(parse).collect()
    })
}

/// The application with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static App> {
    apps().iter().find(|app| app.name == name)
}

fn parse(line: &'static str) -> Option<App> {
    let fields: Vec<&str> = line.split(',').collect();
    let [name, class, kind, numbers @ ..] = fields.as_slice() else { return None };
    let numbers: Vec<f64> = numbers.iter().map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let [vector, tensor, dram, l2, hit, footprint, occupancy, serial, clocked, width] = numbers[..] else {
        return None;
    };
    let class = match *class {
        "TI" => Class::Tensor,
        "CI" => Class::Compute,
        "MI" => Class::Memory,
        "US" => Class::Unscalable,
        _ => return None,
    };
    let tensor_kind = match *kind {
        "mixed" => Some(Tensor::Mixed),
        "double" => Some(Tensor::Double),
        "integer" => Some(Tensor::Integer),
        _ => None,
    };
    Some(App {
        name,
        class,
        tensor_kind,
        vector,
        tensor,
        dram,
        l2,
        hit,
        footprint,
        occupancy,
        serial,
        clocked,
        width,
    })
}
