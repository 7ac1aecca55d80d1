//! Kinds of metrics, and their registration by name.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

pub(super) type Labels = Vec<(&'static str, String)>;
pub(super) type Gauges = Family<Labels, Gauge>;
pub(super) type Ratios = Family<Labels, Gauge<f64, std::sync::atomic::AtomicU64>>;
pub(super) type Counters = Family<Labels, Counter>;

pub(super) fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

pub(super) fn family<F: Clone + Default + Metric>(registry: &mut Registry, name: &str, help: &str) -> F {
    let family = F::default();
    registry.register(name, help, family.clone());
    family
}
