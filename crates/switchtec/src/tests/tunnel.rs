//! Compares a drive behind a switch with the same drive without a switch.

use drives::nvme::admin::{AdminQueue, Erase, Resource, Virtualization};

use super::*;
use crate::fake::tunnel_to;

/// Sends every admin command that Warren uses, also some that the drive refuses; returns the answers.
fn answers(drive: &Simulated, queue: Box<dyn AdminQueue>) -> Vec<String> {
    let admin = Admin::new(queue);
    drive.state().down = [(3, Down::default())].into();
    let mut answers = vec![
        format!("{:?}", admin.controller()),
        format!("{:?}", admin.common()),
        format!("{:?}", admin.secondaries()),
        format!("{:?}", admin.primary()),
        format!("{:?}", admin.smart()),
        format!("{:?}", admin.supports(0x0d)),
        format!("{:?}", admin.create(2048, 1)),
        format!("{:?}", admin.create(1 << 40, 1)),
        format!("{:?}", admin.namespace(1)),
        format!("{:?}", admin.attach(1, 2)),
        format!("{:?}", admin.attach(1, 99)),
        format!("{:?}", admin.attached_controllers(1)),
        format!("{:?}", admin.format(1, 1, Erase::Cryptographic)),
        format!("{:?}", admin.detach(1, 2)),
        format!("{:?}", admin.detach(7, 2)),
        format!("{:?}", admin.virtualize(3, Virtualization::Assign(Resource::Queues, 2))),
        format!("{:?}", admin.virtualize(3, Virtualization::Online)),
        format!("{:?}", admin.allocated()),
        format!("{:?}", admin.delete(1)),
        format!("{:?}", admin.delete(1)),
        format!("{:?}", admin.allocated()),
    ];
    let state = drive.state();
    answers.push(format!("{:?} {:?} {}", state.namespaces, state.down, state.formats));
    answers
}

#[test]
fn every_admin_command_gets_the_same_answer_through_a_tunnel() {
    let (direct, behind) = (drive(0, 17), drive(0, 17));
    let expected = answers(&direct, Box::new(direct.clone()));
    assert_eq!(answers(&behind, tunnel_to(&behind)), expected);
    let refused = expected.iter().filter(|answer| answer.starts_with("Err")).count();
    assert!((3..9).contains(&refused), "{refused} refusals in {expected:#?}");
}

#[test]
fn a_lost_answer_is_an_error_of_the_system_and_no_status() {
    let drive = drive(0, 17);
    drive.state().lose = Some((0x0d, Lost::After));
    let error = Admin::new(tunnel_to(&drive)).create(2048, 1).unwrap_err();
    assert_eq!(error.code(), None, "the caller must not take this for a refusal: {error}");
    assert_eq!(drive.state().namespaces.len(), 1, "the drive has made the namespace");
}
