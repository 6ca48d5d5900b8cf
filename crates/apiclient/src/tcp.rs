//! TCP connections on which the kernel notices a dead peer, so that the process needs no timer.

use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;

const CONNECT: Duration = Duration::from_secs(10);
/// Idle time after which the kernel begins to probe a connection. The kernel then probes every [`PROBE`], and gives up
/// after [`PROBES`] probes without an answer. So the kernel notices within two minutes that a peer has lost power; with
/// its default values it would need more than two hours.
const KEEPALIVE: Duration = Duration::from_secs(60);
const PROBE: Duration = Duration::from_secs(10);
const PROBES: u32 = 6;
/// Time after which the kernel gives up a connection with unacknowledged data. The kernel sends no probes while data is
/// unacknowledged, and by default it retransmits for a quarter of an hour (tcp(7), `TCP_USER_TIMEOUT`).
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Returns a connector whose connections notice a peer that has lost power.
#[must_use]
pub fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(PROBE));
    tcp.set_keepalive_retries(Some(PROBES));
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    tcp
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{getsockopt, sockopt};
    use tokio::net::TcpListener;
    use tower::Service;

    use super::*;

    #[tokio::test]
    async fn a_peer_without_power_is_noticed_within_two_minutes() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let to = format!("https://{}", listener.local_addr().unwrap());
        let stream = tcp().call(to.parse().unwrap()).await.unwrap();
        let option = |value: Result<u32, _>| value.unwrap();
        let (idle, interval, probes) = (
            option(getsockopt(stream.inner(), sockopt::TcpKeepIdle)),
            option(getsockopt(stream.inner(), sockopt::TcpKeepInterval)),
            option(getsockopt(stream.inner(), sockopt::TcpKeepCount)),
        );
        assert!(getsockopt(stream.inner(), sockopt::KeepAlive).unwrap());
        assert!(idle + interval * probes <= 120, "without unacknowledged data");
        let milliseconds = option(getsockopt(stream.inner(), sockopt::TcpUserTimeout));
        assert!((1..=30_000).contains(&milliseconds), "with unacknowledged data");
    }
}
