//! Polls the links at a rabbit's PCIe switches, because the switches announce no change. The switches' firmware answers
//! from memory. If an answer differs from the previous one, requests a health check.

use std::{sync::Arc, time::Duration};

use storage::{host::ObserveError, observed::PortLink};

use super::HealthState;

/// Reads the links of this node's switches; the list is empty where there is no switch.
pub type Ask = Arc<dyn Fn() -> Result<Vec<PortLink>, ObserveError> + Send + Sync>;

/// Reads the links again and again, with a pause of `every` after each read. On a node without switches, reads again
/// only after a device event: the event may announce a new switch.
pub async fn follow(ask: Ask, health: HealthState, every: Duration) {
    let mut called = health.check_requests();
    let mut known: Vec<PortLink> = Vec::new();
    loop {
        let query = Arc::clone(&ask);
        let answer = tokio::task::spawn_blocking(move || query()).await;
        // After a failed read the last answer stays valid, and the agent reads again. A thread that panicked has
        // reported the panic itself.
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

    /// Returns a function that gives these answers in order and then repeats the last one; and a counter of its calls.
    fn answers(answers: Vec<Option<Vec<PortLink>>>) -> (Ask, Arc<Mutex<usize>>) {
        let query_count = Arc::new(Mutex::new(0));
        let count = Arc::clone(&query_count);
        let ask = move || {
            let mut query_count = count.lock().unwrap();
            let answer = answers[(*query_count).min(answers.len() - 1)].clone();
            *query_count += 1;
            let path = "/dev/switchtec0".to_owned();
            answer
                .ok_or_else(|| ObserveError::Read { path, source: io::ErrorKind::TimedOut.into() })
        };
        (Arc::new(ask), query_count)
    }

    async fn until(query_count: &Mutex<usize>, times: usize) {
        let enough = async {
            while *query_count.lock().unwrap() < times {
                tokio::time::sleep(SOON).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), enough).await;
        assert!(
            waited.is_ok(),
            "the switches were queried only {} times",
            query_count.lock().unwrap()
        );
    }

    #[tokio::test]
    async fn a_changed_link_requests_a_check_and_a_silent_switch_does_not() {
        let up = || Some(vec![link(LinkState::Up)]);
        let (ask, query_count) = answers(vec![up(), None, up(), Some(vec![link(LinkState::Down)])]);
        let health = HealthState::default();
        let called = health.check_requests();
        let following = tokio::spawn(follow(ask, health, SOON));
        until(&query_count, 3).await;
        assert_eq!(*called.borrow(), 0, "the link is still up");
        until(&query_count, 10).await;
        assert_eq!(*called.borrow(), 1, "the link went down once and stays down");
        following.abort();
    }

    #[tokio::test]
    async fn switches_that_do_not_answer_at_first_are_read_again() {
        let up = Some(vec![link(LinkState::Up)]);
        let (ask, query_count) = answers(vec![None, up, Some(vec![link(LinkState::Down)])]);
        let health = HealthState::default();
        let called = health.check_requests();
        let following = tokio::spawn(follow(ask, health, SOON));
        until(&query_count, 4).await;
        assert_eq!(*called.borrow(), 1, "the link went down");
        following.abort();
    }

    #[tokio::test]
    async fn without_switches_links_are_read_only_after_device_events() {
        let (ask, query_count) = answers(vec![Some(Vec::new())]);
        let health = HealthState::default();
        let following = tokio::spawn(follow(ask, health.clone(), SOON));
        until(&query_count, 1).await;
        tokio::time::sleep(50 * SOON).await;
        assert_eq!(*query_count.lock().unwrap(), 1);
        health.request_check();
        until(&query_count, 2).await;
        following.abort();
    }
}
