//! Tests in which the API server's certificate, or the certificate authority, is replaced while jobs run.

use tests::disturbed::Disturbed;

use crate::{no_program_died, pids_of};

/// The server gets a new certificate. Then the certificate authority is replaced, as sites do once a year, and the
/// daemons get new kubeconfig files. They are not restarted.
#[test]
fn daemons_follow_a_new_certificate_and_a_new_authority() -> anyhow::Result<()> {
    let mut disturbed = Disturbed::new(&api::crd_values())?;
    let mut fixture = disturbed.fixture(2, "raw")?;
    let pids = pids_of(&fixture)?;
    fixture.run.carve()?;
    fixture.run.wait_for_file_systems()?;

    disturbed.plane.renew_certificate()?;
    disturbed.plane.kill_apiserver();
    disturbed.plane.start_apiserver()?;
    fixture.run.mount_on_computes()?;
    fixture.run.wait_for_computes("mounted")?;

    disturbed.plane.replace_authority()?;
    disturbed.plane.kill_apiserver();
    disturbed.write_daemons_kubeconfig()?;
    disturbed.plane.start_apiserver()?;
    fixture.run.unmount_from_computes()?;
    fixture.run.wait_for_computes("unmounted")?;
    fixture.run.withdraw_from_computes()?;
    fixture.run.tear_down_storage()?;
    no_program_died(&fixture, &pids)?;
    fixture.end()
}
