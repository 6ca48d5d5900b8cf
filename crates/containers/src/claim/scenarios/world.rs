//! The API, the coordinators and the rabbits of a scenario. The scenario's test sets the time.

mod coordinator;
mod rabbit;
mod server;

use std::time::Duration;

use api::ContainerRunPhase as Phase;

pub(super) use coordinator::Coordinator;
pub(super) use rabbit::Rabbit;
pub(super) use server::{Refused, Server};

use crate::claim::plan::{RabbitState, Step};

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Makes C1 bring a run on two rabbits into this phase. Returns the API, C1 and the rabbits.
pub(super) fn brought_to(phase: &Phase) -> (Server, Coordinator, Vec<Rabbit>) {
    let mut server = Server::new(&["r1", "r2"]);
    let mut rabbits = vec![Rabbit::new("r1"), Rabbit::new("r2")];
    let now = seconds(0);
    let mut c1 = Coordinator::alive("c1", &mut server, now);
    let is_reached =
        |server: &Server| server.run().status.is_some_and(|status| status.phase == *phase);
    for _ in 0..20 {
        if is_reached(&server) {
            return (server, c1, rabbits);
        }
        let step = c1.step(&mut server, &mut rabbits, now).unwrap();
        if step == Step::Start {
            rabbits.iter_mut().for_each(|rabbit| rabbit.becomes(RabbitState::Ready));
        }
    }
    panic!("the run does not reach {phase}");
}
