//! The API, coordinators and rabbits of a scenario. Times are the scenario's own.

mod coordinator;
mod rabbit;
mod server;

use std::time::Duration;

use api::ContainerRunPhase as Phase;

pub(super) use coordinator::Coordinator;
pub(super) use rabbit::Rabbit;
pub(super) use server::{Refused, Server};

use crate::claim::plan::{State, Step};

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A run that C1 has brought into this phase, on two rabbits.
pub(super) fn brought_to(phase: &Phase) -> (Server, Coordinator, Vec<Rabbit>) {
    let mut server = Server::new(&["r1", "r2"]);
    let mut rabbits = vec![Rabbit::new("r1"), Rabbit::new("r2")];
    let now = seconds(0);
    let mut c1 = Coordinator::there("c1", &mut server, now);
    let wanted = |server: &Server| server.run().status.is_some_and(|status| status.phase == *phase);
    for _ in 0..20 {
        if wanted(&server) {
            return (server, c1, rabbits);
        }
        let step = c1.step(&mut server, &mut rabbits, now).unwrap();
        if step == Step::Start {
            rabbits.iter_mut().for_each(|rabbit| rabbit.becomes(State::Ready));
        }
    }
    panic!("{phase} is not on the way");
}
