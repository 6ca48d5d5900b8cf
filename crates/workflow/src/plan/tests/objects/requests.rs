//! Requests of workload managers and users: new workflows, computes, placements and states.

use serde_json::{Value, json};

use super::{Objects, parse_at};
use crate::{plan::plan_key, world::Key};

const STATES: [&str; 7] =
    ["Proposal", "Setup", "DataIn", "PreRun", "PostRun", "DataOut", "Teardown"];

/// Label and size of an allocation set, and its rabbits with their allocation counts.
pub(crate) type AllocationSet<'a> = (&'a str, i64, &'a [(&'a str, i64)]);

impl Objects {
    /// Creates workflow `w` of user 1001, and carries out its Proposal.
    pub(crate) fn propose(self, lines: &[&str]) -> Self {
        self.request("w", 1001, lines).settle()
    }

    /// Creates a workflow of a user. Its Proposal is not carried out yet: the status shows only that it has begun.
    pub(crate) fn request(self, name: &str, user: u32, lines: &[&str]) -> Self {
        let spec = json!({"desiredState": "Proposal", "wlmID": "test", "jobID": 7, "userID": user,
            "groupID": 1002, "hurry": false, "forceReady": false, "dwDirectives": lines});
        let mut site = self.put(&format!("Workflow default/{name}"), json!({"spec": spec}));
        site.begin(name);
        site
    }

    /// Clears the message of workflow `w`, so that the next plan writes it again.
    pub(crate) fn forget(self) -> Self {
        self.edit("Workflow default/w", &json!({"status": {"message": ""}}))
    }

    /// Names the computes of workflow `w`.
    pub(crate) fn computes(self, names: &[&str]) -> Self {
        let names: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        self.edit("Computes default/w", &json!({"data": names}))
    }

    /// Fills the Servers of directive 0 of workflow `w`.
    pub(crate) fn servers(self, sets: &[AllocationSet<'_>]) -> Self {
        let set = |(label, size, on): &AllocationSet<'_>| {
            let on = on.iter().map(|(name, count)| json!({"name": name, "allocationCount": count}));
            json!({"label": label, "allocationSize": size, "storage": on.collect::<Vec<_>>()})
        };
        let sets: Vec<Value> = sets.iter().map(set).collect();
        self.edit("Servers default/w-0", &json!({"spec": {"allocationSets": sets}}))
    }

    /// Brings workflow `w` to the beginning of a state: the states before it are carried out, and the status shows that
    /// this state has begun.
    #[track_caller]
    pub(crate) fn reach(self, state: &str) -> Self {
        self.bring("w", state)
    }

    #[track_caller]
    pub(crate) fn bring(mut self, name: &str, state: &str) -> Self {
        let at = format!("Workflow default/{name}");
        loop {
            let workflow = self.get(&at);
            let now = workflow["status"]["state"].as_str().unwrap_or_default().to_owned();
            if now == state {
                return self;
            }
            if workflow["status"]["ready"] != true {
                self = self.settle();
            }
            let workflow = self.get(&at);
            assert_eq!(workflow["status"]["ready"], true, "{:#}", workflow["status"]);
            let next = STATES.iter().position(|known| *known == now).unwrap() + 1;
            self = self.edit(&at, &json!({"spec": {"desiredState": STATES[next]}}));
            self.begin(name);
            if STATES[next] != state {
                self = self.settle();
            }
        }
    }

    /// Adds persistent storage of user 1001 with an allocation for each of these computes, and no workflow.
    pub(crate) fn keep(self, kind: &str, name: &str, computes: &[&str]) -> Self {
        let line = format!("#DW create_persistent type={kind} capacity=1GiB name={name}");
        let site = self.with("make", &line, computes, "Teardown");
        site.delete("Workflow default/make").settle()
    }

    /// Brings a workflow with one directive and these computes to the end of a state.
    pub(crate) fn with(self, name: &str, line: &str, computes: &[&str], state: &str) -> Self {
        let names: Vec<Value> = computes.iter().map(|name| json!({"name": name})).collect();
        self.request(name, 1001, &[line])
            .settle()
            .edit(&format!("Computes default/{name}"), &json!({"data": names}))
            .bring(name, state)
            .settle()
    }

    /// Requests a state of workflow `w`, whatever state it is in now.
    pub(crate) fn reach_by_force(mut self, state: &str) -> Self {
        self = self.edit("Workflow default/w", &json!({"spec": {"desiredState": state}}));
        self.begin("w");
        self
    }

    /// Makes only those changes of a workflow that begin its desired state.
    fn begin(&mut self, name: &str) {
        self.seconds = 0;
        let key = Key::Workflow(("default".to_owned(), name.to_owned()));
        for _ in 0..2 {
            let plan = plan_key(&self.world(), &key, self.now());
            let own =
                plan.changes.iter().find(|change| change.target().resource.kind == "Workflow");
            if let Some(change) = own {
                self.make(change);
            }
            if self.all[&parse_at(&format!("Workflow default/{name}"))]["status"]["state"]
                .is_string()
            {
                break;
            }
        }
        self.seconds = 10;
    }
}
