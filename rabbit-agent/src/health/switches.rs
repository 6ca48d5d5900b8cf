//! Links at a rabbit's PCIe switches. They announce no change, so the agent asks them: their firmware answers from
//! memory, and an answer that differs from the last requests a health check.

use std::{sync::Arc, time::Duration};

use storage::{host::ObserveError, observed::PortLink};

use super::HealthState;

/// Asks the switches of this node for their links; the list is empty where there is no switch.
pub type Ask = Arc<dyn Fn() -> Result<Vec<PortLink>, ObserveError> + Send + Sync>;

/// Asks `every` so often, without end. On a node without switches the agent asks again only after a device event: one
/// may have come.
pub async fn follow(ask: Ask, health: HealthState, every: Duration) {
    let mut called = health.check_requests();
    let mut known: Vec<PortLink> = Vec::new();
    loop {
        let asked = Arc::clone(&ask);
        let answer = tokio::task::spawn_blocking(move || asked()).await;
        // After a failure the last answer counts, and the agent asks again. The thread has reported its panic.
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

    /// Switches that give these answers in order and repeat the last; and how often they were asked.
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
    async fn a_link_that_changes_is_a_call_for_a_look_and_a_silent_switch_is_none() {
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
    async fn what_could_not_be_asked_at_first_is_asked_again() {
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
    async fn without_switches_nothing_is_asked_until_a_device_moves() {
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
