//! Polls the links at a rabbit's PCIe switches, which announce no change: their firmware answers from memory, and an
//! answer that differs from the last requests a health check.

use std::{sync::Arc, time::Duration};

use storage::{host::ObserveError, observed::PortLink};

use super::HealthState;

/// Reads the links of this node's switches; the list is empty where there is no switch.
pub type Ask = Arc<dyn Fn() -> Result<Vec<PortLink>, ObserveError> + Send + Sync>;

/// Reads the links `every` so often, without end. On a node without switches reads again only after a device event: a
/// switch may have been added.
pub async fn follow(ask: Ask, health: HealthState, every: Duration) {
    let mut called = health.check_requests();
    let mut known: Vec<PortLink> = Vec::new();
    loop {
        let asked = Arc::clone(&ask);
        let answer = tokio::task::spawn_blocking(move || asked()).await;
        // After a failure the last answer stays valid, and the agent reads again. The thread has reported its panic.
        let failed = !matches!(answer, Ok(Ok(_)));
        if let Ok(Ok(now)) = answer {
            if !known.is_empty() && now != known {
                health.request_check();
            }
            known = now;
        }
        if known.is_empty() && !failed {
            if called.changed().await.is_err() {
                return;
            }
        } else {
            tokio::time::sleep(every).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Mutex};

    use storage::{
        desired::Endpoint,
        observed::{LinkEnd, LinkState, Pair},
    };

    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    fn link(state: LinkState) -> PortLink {
        let (width, generation) = (Pair { now: 4, full: 4 }, Pair { now: 4, full: 4 });
        let end = LinkEnd::Host(Endpoint::Compute(3));
        PortLink { switch: 0, port: 7, end, state, width, generation }
    }

    /// Returns switches that give these answers in order and repeat the last; and a counter of the reads.
    fn answers(answers: Vec<Option<Vec<PortLink>>>) -> (Ask, Arc<Mutex<usize>>) {
        let asked = Arc::new(Mutex::new(0));
        let count = Arc::clone(&asked);
        let ask = move || {
            let mut asked = count.lock().unwrap();
            let answer = answers[(*asked).min(answers.len() - 1)].clone();
            *asked += 1;
            let path = "/dev/switchtec0".to_owned();
            answer
                .ok_or_else(|| ObserveError::Read { path, source: io::ErrorKind::TimedOut.into() })
        };
        (Arc::new(ask), asked)
    }

    async fn until(asked: &Mutex<usize>, times: usize) {
        let enough = async {
            while *asked.lock().unwrap() < times {
                tokio::time::sleep(SOON).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), enough).await;
        assert!(waited.is_ok(), "asked {} times, and no more", asked.lock().unwrap());
    }

    #[tokio::test]
    async fn a_changed_link_requests_a_check_and_a_silent_switch_does_not() {
        let up = || Some(vec![link(LinkState::Up)]);
        let (ask, asked) = answers(vec![up(), None, up(), Some(vec![link(LinkState::Down)])]);
        let health = HealthState::default();
        let called = health.check_requests();
        let following = tokio::spawn(follow(ask, health, SOON));
        until(&asked, 3).await;
        assert_eq!(*called.borrow(), 0, "it is still up");
        until(&asked, 10).await;
        assert_eq!(*called.borrow(), 1, "it went, and stays away");
        following.abort();
    }

    #[tokio::test]
    async fn switches_silent_at_first_are_read_again() {
        let up = Some(vec![link(LinkState::Up)]);
        let (ask, asked) = answers(vec![None, up, Some(vec![link(LinkState::Down)])]);
        let health = HealthState::default();
        let called = health.check_requests();
        let following = tokio::spawn(follow(ask, health, SOON));
        until(&asked, 4).await;
        assert_eq!(*called.borrow(), 1, "the link went");
        following.abort();
    }

    #[tokio::test]
    async fn without_switches_links_are_read_only_after_device_events() {
        let (ask, asked) = answers(vec![Some(Vec::new())]);
        let health = HealthState::default();
        let following = tokio::spawn(follow(ask, health.clone(), SOON));
        until(&asked, 1).await;
        tokio::time::sleep(50 * SOON).await;
        assert_eq!(*asked.lock().unwrap(), 1);
        health.request_check();
        until(&asked, 2).await;
        following.abort();
    }
}
