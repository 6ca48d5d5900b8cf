//! Runs the prolog and the epilog for Flux as Flux does. Stand-ins for `flux` and `clientmount-agent`, first in PATH,
//! record the calls of both programs. The tests in `real.rs` use the real agent.

mod faults;
mod real;
mod stage;
mod traces;
