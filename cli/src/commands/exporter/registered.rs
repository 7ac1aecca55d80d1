//! Kinds of metrics, and their registration by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry};

pub(super) type Labels = Vec<(&'static str, String)>;
pub(super) type Gauges = Family<Gauge>;
pub(super) type Ratios = Family<Gauge<f64, std::sync::atomic::AtomicU64>>;
pub(super) type Counters = Family<Counter>;

/// Metrics of one name, in the order of their labels: the library's own family writes its lines in another order each time.
#[derive(Clone, Debug)]
pub(super) struct Family<M>(Arc<Mutex<BTreeMap<Labels, M>>>);

impl<M> Default for Family<M> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<M: Clone> Family<M> {
    /// Gives the metric with these labels, a new one if there is none yet. Its copies count together.
    pub(super) fn get_or_insert(&self, labels: &Labels, new: impl FnOnce() -> M) -> M {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let labels = labels.iter().map(|(name, value)| (*name, escaped(value))).collect();
        all.entry(labels).or_insert_with(new).clone()
    }

    /// Gives the metric with these labels, which begins at zero.
    pub(super) fn get_or_create(&self, labels: &Labels) -> M
    where
        M: Default,
    {
        self.get_or_insert(labels, M::default)
    }
}

impl<M: EncodeMetric + TypedMetric> EncodeMetric for Family<M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().try_for_each(|(labels, metric)| metric.encode(encoder.encode_family(labels)?))
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// A label's value as the text format has it. The library writes it as it is, and a reason to wait may have been written by a plugin.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_of_a_label_ends_its_line() {
        let mut registry = Registry::with_prefix("t");
        let all: Gauges = family(&mut registry, "first", "One");
        all.get_or_create(&vec![("reason", "a\"} 1\nforged{b=\"c\\".to_owned())]).inc();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("t_first{reason=\"a\\\"} 1\\nforged{b=\\\"c\\\\\"} 1\n"), "{text}");
    }

    #[test]
    fn lines_of_a_name_stand_together_in_the_order_of_their_labels() {
        let mut registry = Registry::with_prefix("t");
        let (first, second): (Gauges, Counters) =
            (family(&mut registry, "first", "One"), family(&mut registry, "second", "Two"));
        for node in ["n2", "n10", "n1", "n3", "n2"] {
            first.get_or_create(&vec![("node", node.to_owned())]).inc();
            second.get_or_create(&vec![("node", node.to_owned())]).inc();
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        insta::assert_snapshot!(text, @r#"
        # HELP t_first One.
        # TYPE t_first gauge
        t_first{node="n1"} 1
        t_first{node="n10"} 1
        t_first{node="n2"} 2
        t_first{node="n3"} 1
        # HELP t_second Two.
        # TYPE t_second counter
        t_second_total{node="n1"} 1
        t_second_total{node="n10"} 1
        t_second_total{node="n2"} 2
        t_second_total{node="n3"} 1
        # EOF
        "#);
    }
}
