//! What Prometheus reads under `/metrics`, with the names people know from the reference.
//!
//! Counters live here; whatever can be counted in the store is counted when it is asked for. The only label that grows
//! is the name of a cluster.

use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::store::fleet::ClusterRow;
use crate::store::{Store, StoreError};

/// Media type of the answer.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;

/// The planner's counters. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    attempts: Family<Labels, Counter>,
    matching: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            attempts: Family::default(),
            // From 50 microseconds to 1.6 seconds.
            matching: Histogram::new(exponential_buckets(0.000_05, 2.0, 16)),
        }
    }
}

impl Metrics {
    /// A template was scheduled, or could not be.
    pub(crate) fn scheduled(&self, succeeded: bool) {
        let result = if succeeded { "scheduled" } else { "unschedulable" };
        self.attempts
            .get_or_create(&vec![("result", result.to_owned())])
            .inc();
    }

    /// Policies were matched against a template, and its plan was made.
    pub(crate) fn planned(&self, took: Duration) {
        self.matching.observe(took.as_secs_f64());
    }

    /// Everything as text.
    ///
    /// # Errors
    /// The store.
    pub fn text(&self, store: &Store) -> Result<String, StoreError> {
        let mut registry = Registry::default();
        registry.register(
            "karmada_schedule_attempts",
            "Attempts to schedule a template, by result",
            self.attempts.clone(),
        );
        registry.register(
            "karmada_resource_match_policy",
            "Seconds to match policies against a template and to plan it",
            self.matching.clone(),
        );
        registry.register(
            "resource_match_policy_duration_seconds",
            "The same, under the reference's name",
            self.matching.clone(),
        );
        let ready = Family::<Labels, Gauge>::default();
        let state = Family::<Labels, Gauge>::default();
        for row in store.all_facts()? {
            let known = condition(&row);
            for word in ["True", "False", "Unknown"] {
                let labels = vec![
                    ("cluster_name", row.cluster.to_string()),
                    ("condition", word.to_owned()),
                ];
                ready.get_or_create(&labels).set(i64::from(word == known));
            }
            let labels = vec![("member_cluster", row.cluster.to_string())];
            state.get_or_create(&labels).set(i64::from(known == "True"));
        }
        registry.register(
            "karmada_cluster_ready_condition",
            "1 for the status that the condition Ready of the cluster has",
            ready,
        );
        registry.register("cluster_ready_state", "1 if the cluster is ready", state);
        let works = Family::<Labels, Gauge>::default();
        for (status, count) in store.works_by_status()? {
            works
                .get_or_create(&vec![("status", status.to_owned())])
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        registry.register(
            "karmada_work_status",
            "Works by what their clusters say of them",
            works,
        );
        let mut out = String::new();
        encode(&mut out, &registry).map_err(|error| StoreError::Database {
            cause: error.to_string(),
        })?;
        Ok(out)
    }
}

/// Status of the condition Ready.
fn condition(row: &ClusterRow) -> &str {
    row.facts
        .ready
        .as_ref()
        .map_or("Unknown", |ready| ready.status.as_str())
}

#[cfg(test)]
mod tests {
    use shared::time::UnixSeconds;

    use super::*;

    #[tokio::test]
    async fn names_and_results_are_told() {
        let folder = tempfile::tempdir().unwrap();
        Store::create(folder.path()).unwrap();
        let store = Store::open(folder.path(), UnixSeconds(1_800_000_000)).unwrap();
        let metrics = Metrics::default();
        metrics.scheduled(true);
        metrics.scheduled(true);
        metrics.scheduled(false);
        metrics.planned(Duration::from_millis(3));
        let text = metrics.text(&store).unwrap();
        for line in [
            "karmada_schedule_attempts_total{result=\"scheduled\"} 2",
            "karmada_schedule_attempts_total{result=\"unschedulable\"} 1",
            "karmada_resource_match_policy_count 1",
            "resource_match_policy_duration_seconds_count 1",
            "karmada_work_status{status=\"applied\"} 0",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
