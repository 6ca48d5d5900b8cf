//! The engine's metrics for Prometheus. Counters are updated as events occur; gauges are computed on scrape.

use std::collections::BTreeMap;

use api::{NnfDataMovement, Workflow, WorkflowState, nnf_data_movement::DataMovementState};
use k8s_openapi::jiff::Timestamp;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode_registry},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// Buckets of the time to reach a state, in seconds: from states without storage to the longest time-out of a site.
const BUCKETS: [f64; 9] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateAndStatusLabels {
    state: String,
    status: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabel {
    phase: String,
}

/// Counts of objects at one time.
#[derive(Debug, Default)]
pub struct Counts {
    /// Workflows by state and status.
    pub workflows: BTreeMap<(String, String), i64>,
    /// Longest time in seconds that a workflow has waited to reach a state, by state.
    pub longest_wait: BTreeMap<String, i64>,
    /// Containers of runs on rabbits, by state.
    pub containers: BTreeMap<&'static str, i64>,
    /// ContainerRuns that coordinators claim, by phase.
    pub runs: BTreeMap<String, i64>,
    /// Copies of data by state; by their verdict once they have ended.
    pub movements: BTreeMap<String, i64>,
    /// Bytes per second of all running copies together.
    pub movement_rate: i64,
}

/// Counters since the coordinator started.
#[derive(Debug)]
pub(crate) struct Metrics {
    reached: Family<StateLabel, Histogram>,
    refused: Counter,
    lost_claims: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            reached: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            refused: Counter::default(),
            lost_claims: Counter::default(),
        }
    }
}

impl Metrics {
    /// If a Workflow became ready, records how long it took to reach its state.
    pub(crate) fn observe_ready(&self, before: &Workflow, after: &Workflow) {
        let was_ready = before.status.as_ref().is_some_and(|status| status.ready);
        let Some(status) = after.status.as_ref().filter(|status| status.ready && !was_ready) else {
            return;
        };
        let (Some(state), Some(from), Some(to)) =
            (&status.state, &status.desired_state_change, &status.ready_change)
        else {
            return;
        };
        let label = StateLabel { state: state.as_str().to_owned() };
        let seconds = to.0.duration_since(from.0).as_secs_f64().max(0.0);
        self.reached.get_or_create(&label).observe(seconds);
    }

    /// Counts failed changes, and how many of them failed because another coordinator has the claim now.
    pub(crate) fn count_failures(&self, changes: usize, lost_claims: usize) {
        self.refused.inc_by(changes as u64);
        self.lost_claims.inc_by(lost_claims as u64);
    }

    /// Returns the metrics in the OpenMetrics text format without the end marker.
    pub(crate) fn text(&self, counts: &Counts) -> String {
        let mut registry = Registry::with_prefix("warren");
        register_counts(&mut registry, counts);
        registry.register(
            "workflow_state_seconds",
            "Time from the request of a state until it was reached",
            self.reached.clone(),
        );
        registry.register(
            "refused_changes",
            "Changes that the API refused or did not answer; the engine plans again",
            self.refused.clone(),
        );
        registry.register(
            "lost_claims",
            "Changes of containers that were dropped because another coordinator has the claim",
            self.lost_claims.clone(),
        );
        let mut text = String::new();
        encode_registry(&mut text, &registry).expect("writing into a string does not fail");
        text
    }
}

fn register_counts(registry: &mut Registry, counts: &Counts) {
    let workflows = Family::<StateAndStatusLabels, Gauge>::default();
    for ((state, status), count) in &counts.workflows {
        let labels = StateAndStatusLabels { state: state.clone(), status: status.clone() };
        workflows.get_or_create(&labels).set(*count);
    }
    registry.register("workflows", "Workflows by state and status", workflows);
    let of_state = |state: &str| StateLabel { state: state.to_owned() };
    let waits = Family::<StateLabel, Gauge>::default();
    for (state, seconds) in &counts.longest_wait {
        waits.get_or_create(&of_state(state)).set(*seconds);
    }
    let help = "How long the Workflow that has waited longest for a state has waited";
    registry.register("workflow_longest_wait_seconds", help, waits);
    let containers = Family::<StateLabel, Gauge>::default();
    for (state, count) in &counts.containers {
        containers.get_or_create(&of_state(state)).set(*count);
    }
    let help = "Containers of runs on rabbits; silent: their deadline has passed and the rabbit has not reported their end";
    registry.register("containers", help, containers);
    let runs = Family::<PhaseLabel, Gauge>::default();
    for (phase, count) in &counts.runs {
        runs.get_or_create(&PhaseLabel { phase: phase.clone() }).set(*count);
    }
    registry.register("container_runs", "Runs that coordinators claim, by phase", runs);
    let movements = Family::<StateLabel, Gauge>::default();
    for (state, count) in &counts.movements {
        movements.get_or_create(&of_state(state)).set(*count);
    }
    registry.register("movements", "Copies of data by state, or by their verdict", movements);
    let rate: Gauge = Gauge::default();
    rate.set(counts.movement_rate);
    let help = "Bytes per second of all running copies of data together";
    registry.register("movement_bytes_per_second", help, rate);
}

impl Counts {
    pub(crate) fn count_movement(&mut self, movement: &NnfDataMovement) {
        let status = movement.status.clone().unwrap_or_default();
        let verdict = status.status.filter(|_| movement.is_finished());
        let state = match (verdict, &status.state) {
            (Some(verdict), _) => verdict.to_string(),
            (None, Some(state)) => state.to_string(),
            (None, None) => String::new(),
        };
        if status.state == Some(DataMovementState::Running) {
            self.movement_rate += status.command_status.bytes_per_second.unwrap_or(0);
        }
        *self.movements.entry(state).or_default() += 1;
    }

    pub(crate) fn count_workflow(&mut self, workflow: &Workflow, now: Timestamp) {
        let status = workflow.status.clone().unwrap_or_default();
        let state = status.state.unwrap_or(WorkflowState::Proposal);
        let state = state.as_str().to_owned();
        let kind = status.status.map_or_else(String::new, |kind| kind.as_str().to_owned());
        *self.workflows.entry((state.clone(), kind)).or_default() += 1;
        if let Some(since) = status.desired_state_change.filter(|_| !status.ready) {
            let seconds = now.duration_since(since.0).as_secs().max(0);
            let longest = self.longest_wait.entry(state).or_default();
            *longest = seconds.max(*longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn workflow(state: &str, ready: bool) -> Workflow {
        let mut object = json!({
            "metadata": {"name": "w"},
            "spec": {"desiredState": state, "wlmID": "", "jobID": "", "userID": 1, "groupID": 1, "dwDirectives": []},
            "status": {"state": state, "ready": ready, "status": if ready { "Completed" } else { "DriverWait" },
                "desiredStateChange": "2027-01-15T08:00:00.000000Z"},
        });
        if ready {
            object["status"]["readyChange"] = json!("2027-01-15T08:00:02.000000Z");
        }
        from_value(object).unwrap()
    }

    #[test]
    fn metrics_show_the_time_to_reach_a_state_and_the_number_of_workflows_by_state() {
        let metrics = Metrics::default();
        metrics.observe_ready(&workflow("Setup", false), &workflow("Setup", true));
        metrics.observe_ready(&workflow("Setup", true), &workflow("Setup", true));
        metrics.observe_ready(&workflow("Setup", true), &workflow("PreRun", false));
        metrics.count_failures(3, 1);
        let mut counts = Counts::default();
        let now = "2027-01-15T08:01:00Z".parse().unwrap();
        for workflow in
            [workflow("Setup", true), workflow("PreRun", false), workflow("PreRun", false)]
        {
            counts.count_workflow(&workflow, now);
        }
        counts.containers.insert("silent", 2);
        for status in [
            json!({"state": "Running", "commandStatus": {"bytesPerSecond": 40}}),
            json!({"state": "Running", "commandStatus": {"bytesPerSecond": 2}}),
            json!({"state": "Finished", "status": "Failed", "commandStatus": {"bytesPerSecond": 7}}),
        ] {
            let movement = json!({"metadata": {"name": "w-1-0"}, "spec": {}, "status": status});
            counts.count_movement(&from_value(movement).unwrap());
        }
        let text = metrics.text(&counts);
        for line in [
            r#"warren_workflow_state_seconds_sum{state="Setup"} 2.0"#,
            r#"warren_workflow_state_seconds_bucket{le="3.0",state="Setup"} 1"#,
            r#"warren_workflows{state="PreRun",status="DriverWait"} 2"#,
            r#"warren_workflow_longest_wait_seconds{state="PreRun"} 60"#,
            r#"warren_containers{state="silent"} 2"#,
            r#"warren_movements{state="Running"} 2"#,
            r#"warren_movements{state="Failed"} 1"#,
            "warren_movement_bytes_per_second 42",
            "warren_refused_changes_total 3",
            "warren_lost_claims_total 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains(r#"workflow_state_seconds_sum{state="PreRun"}"#), "{text}");
    }
}
