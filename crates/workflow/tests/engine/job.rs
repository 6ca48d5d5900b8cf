//! Acts on a workflow as a workload manager does.

use serde_json::{Value, json};

use crate::site::{Site, at};

pub(crate) const STATES: [&str; 7] =
    ["Proposal", "Setup", "DataIn", "PreRun", "PostRun", "DataOut", "Teardown"];

pub(crate) const GIB: i64 = 1 << 30;

pub(crate) fn directive(kind: &str, name: &str) -> String {
    format!("#DW jobdw type={kind} capacity=1GiB name={name}")
}

/// Returns a new Workflow as a workload manager creates it.
pub(crate) fn new_workflow(user: u32, name: &str, directives: &[String]) -> Value {
    json!({
        "kind": "Workflow", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "desiredState": "Proposal", "wlmID": "test", "jobID": 7, "userID": user, "groupID": 1002,
            "hurry": false, "forceReady": false, "dwDirectives": directives,
        },
    })
}

impl Site {
    pub(crate) fn create(&mut self, name: &str, directives: &[String]) {
        self.create_by(1001, name, directives);
    }

    /// Creates a workflow whose user has this user id.
    pub(crate) fn create_by(&mut self, user: u32, name: &str, directives: &[String]) {
        let workflow = new_workflow(user, name, directives);
        workflow::admit(None, &workflow, None).unwrap();
        self.put(workflow);
    }

    pub(crate) fn workflow(&self, name: &str) -> &Value {
        self.get("Workflow", "default", name)
    }

    pub(crate) fn request_state(&mut self, name: &str, state: &str) {
        let old = self.workflow(name).clone();
        let mut new = old.clone();
        new["spec"]["desiredState"] = json!(state);
        workflow::admit(Some(&old), &new, None).unwrap();
        self.edit("Workflow", "default", name, |object| *object = new);
    }

    pub(crate) fn fill_computes(&mut self, name: &str, computes: &[&str]) {
        let data: Vec<Value> = computes.iter().map(|name| json!({"name": name})).collect();
        self.edit("Computes", "default", name, |object| object["data"] = json!(data));
    }

    /// Creates a workflow with these computes, and requests Setup.
    pub(crate) fn request_setup(&mut self, name: &str, directives: &[String], computes: &[&str]) {
        self.create(name, directives);
        self.settle();
        self.fill_computes(name, computes);
        self.request_state(name, "Setup");
        self.settle();
    }

    /// Tears workflow `from` down, checks that the waiting workflow `to` gets the bytes of `from`, and
    /// tears `to` down too.
    pub(crate) fn hand_over_capacity(&mut self, from: &str, to: &str) {
        self.request_state(from, "Teardown");
        self.settle();
        assert!(self.is_ready(to, "Setup"), "{:?}", self.status_of(to));
        self.request_state(to, "Teardown");
        self.settle();
    }

    /// Returns state, ready, status and message of a workflow.
    pub(crate) fn status_of(&self, name: &str) -> (String, bool, String, String) {
        let status = &self.workflow(name)["status"];
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        (text("state"), status["ready"] == true, text("status"), text("message"))
    }

    pub(crate) fn is_ready(&self, name: &str, state: &str) -> bool {
        let (in_state, ready, status, _) = self.status_of(name);
        in_state == state && ready && status == "Completed"
    }

    /// Creates a workflow with these computes, and brings it to the end of a state.
    pub(crate) fn bring(&mut self, name: &str, directives: &[String], to: &str, computes: &[&str]) {
        self.create(name, directives);
        self.settle();
        assert!(self.is_ready(name, "Proposal"), "{:?}", self.status_of(name));
        self.fill_computes(name, computes);
        for state in &STATES[1..=STATES.iter().position(|state| *state == to).unwrap()] {
            self.request_state(name, state);
            self.settle();
            assert!(self.is_ready(name, state), "{:?}", self.status_of(name));
        }
    }

    /// Brings an existing workflow through all states, one change at a time, and passes a copy of the site to
    /// `ends` before each change.
    pub(crate) fn after_each_change(
        &mut self,
        name: &str,
        computes: &[&str],
        mut ends: impl FnMut(Self),
    ) {
        let mut states = STATES[1..].iter();
        loop {
            ends(self.clone());
            if self.step(|length| (0..length.min(1)).collect()) {
                continue;
            }
            let Some(state) = states.next() else { break };
            self.fill_computes(name, computes);
            self.request_state(name, state);
        }
        assert!(self.is_ready(name, "Teardown"), "{:?}", self.status_of(name));
    }

    /// Deletes a workflow, and checks that nothing is left of it.
    pub(crate) fn remove(&mut self, name: &str) {
        self.delete(&at("Workflow", "default", name));
        self.settle();
        self.assert_clean();
    }

    /// Checks that no bytes are reserved, for the running engine and for an engine that starts now.
    fn assert_no_reservations(&self) {
        let fresh = self.world();
        let no_servers = (String::new(), String::new());
        for world in [Some(&fresh), self.live.world(self)].into_iter().flatten() {
            for (rabbit, node) in &world.site.nodes {
                let space = world.site.reservations.space(rabbit, node, &no_servers);
                assert_eq!(space.free, space.total, "bytes of {rabbit} are reserved");
            }
        }
    }

    fn assert_no_ports_in_use(&self) {
        for (at, record) in self.objects.iter().filter(|(at, _)| at.0 == "NnfPortManager") {
            let entries = record["status"]["allocations"].as_array().into_iter().flatten();
            let used: Vec<_> = entries.filter(|entry| entry["status"] == "InUse").collect();
            assert!(used.is_empty(), "{at:?}: {used:?}");
        }
    }

    pub(crate) fn assert_clean(&self) {
        let shared = [
            "DWDirectiveRule",
            "LustreFileSystem",
            "NnfNode",
            "NnfPortManager",
            "Storage",
            "SystemConfiguration",
            "SystemStatus",
        ];
        let is_profile = |kind: &str| {
            ["NnfContainerProfile", "NnfDataMovementProfile", "NnfStorageProfile"].contains(&kind)
        };
        let left: Vec<_> = self
            .objects
            .keys()
            .filter(|place| {
                let (kind, namespace, _) = place;
                !shared.contains(&&**kind) && !is_profile(kind) && !self.is_lent(place)
                    || (is_profile(kind) && namespace != "nnf-system")
            })
            .collect();
        assert!(left.is_empty(), "left: {left:?}");
        self.assert_nothing_lent_is_used();
        self.assert_no_reservations();
        self.assert_no_ports_in_use();
    }
}
