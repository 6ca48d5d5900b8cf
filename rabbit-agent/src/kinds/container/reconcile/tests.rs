use super::{super::desired::tests::desired, *};

/// A fake podman that reports success and creates nothing.
#[derive(Debug)]
struct Forgetful;

impl Host for Forgetful {
    fn observe(&self, _: ObjectUid, _: Logs) -> Result<Observed, HostError> {
        Ok(Observed::default())
    }

    fn apply(&self, _: &Step) -> Result<(), HostError> {
        Ok(())
    }

    fn check_lustre(&self, _: &[String]) -> Result<(), HostError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_plan_that_never_ends_is_reported() {
    let desired = desired(|_| {});
    let record = record(&super::super::desired::tests::object(|_| {}), Timestamp::now());
    let host: Arc<dyn Host> = Arc::new(Forgetful);
    let seen = Ok(Observed::default());
    let converged = converge(&host, &desired, &record, true, seen).await;
    let trouble = converged.trouble.unwrap();
    let expected = "is still not as desired after 16 rounds of steps; the last steps: write ";
    assert!(trouble.contains(expected), "{trouble}");
}
