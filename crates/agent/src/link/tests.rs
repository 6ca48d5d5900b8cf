use thiserror::Error;

use super::*;

#[derive(Debug, Error)]
#[error("transport error")]
struct Transport(#[source] io::Error);

fn why(status: &Status) -> String {
    match end(status, None) {
        End::Lost { why, .. } | End::Refused(why) => why,
        End::Closed => panic!("the agent receives events"),
    }
}

#[test]
fn the_text_of_a_lost_connection_is_its_innermost_cause() {
    let broken = |kind, text: &str| {
        let error = Transport(io::Error::new(kind, text));
        why(&Status::from_error(Box::new(error)))
    };
    let reset = broken(io::ErrorKind::ConnectionReset, "connection reset by peer");
    assert_eq!(reset, "the connection broke: connection reset by peer");
    let refused = broken(io::ErrorKind::InvalidData, "received fatal alert: UnknownCA");
    let logged =
        "the connection broke: received fatal alert: UnknownCA: check that the authority of --ca";
    assert!(refused.starts_with(logged) && refused.contains("--certificate"), "{refused}");
    let earlier_boot = Status::already_exists("an agent of another boot is connected");
    assert!(matches!(end(&earlier_boot, None), End::Lost { .. }), "the link tries again");
    let why = why(&Status::unavailable("the coordinator is stopping"));
    assert_eq!(why, "the connection broke: the coordinator is stopping");
}
