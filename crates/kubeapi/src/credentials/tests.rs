use super::*;
use std::os::unix::fs::MetadataExt;

fn address(port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)
}

#[test]
fn after_a_restart_the_credentials_are_the_same_and_for_another_address_only_the_certificate_is_new()
 {
    let directory = tempfile::tempdir().unwrap();
    let first = Credentials::load_or_create(directory.path(), address(1)).unwrap();
    let again = Credentials::load_or_create(directory.path(), address(1)).unwrap();
    assert_eq!((&first.token, &first.certificate), (&again.token, &again.certificate));
    let moved = Credentials::load_or_create(directory.path(), address(2)).unwrap();
    assert_eq!((&first.token, &first.ca_certificate), (&moved.token, &moved.ca_certificate));
    assert_ne!(first.certificate, moved.certificate);
}

#[test]
fn only_the_owner_can_read_credentials() {
    let directory = tempfile::tempdir().unwrap();
    let credentials = Credentials::load_or_create(directory.path(), address(1)).unwrap();
    let kubeconfig = directory.path().join("sub/kubeconfig");
    credentials.write_kubeconfig(&kubeconfig).unwrap();
    for path in [directory.path().join(FILE), kubeconfig] {
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "{}", path.display());
    }
    assert!(!format!("{credentials:?}").contains(&credentials.token));
}

const DAY: i64 = 24 * 3600;

#[test]
fn a_certificate_that_expires_soon_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let created = Credentials::load_or_create(directory.path(), address(1)).unwrap();
    let soon = Timestamp::now().as_second() + RENEW - DAY;
    for (ca_expires, keeps_authority) in [(created.ca_expires, true), (soon, false)] {
        let kept = Credentials { ca_expires, expires: soon, ..created.clone() };
        fs::write(directory.path().join(FILE), serde_json::to_vec(&kept).unwrap()).unwrap();
        let found = Credentials::load_or_create(directory.path(), address(1)).unwrap();
        assert_ne!(found.certificate, created.certificate);
        assert_eq!(found.token == created.token, keeps_authority);
        assert_eq!(found.ca_certificate == created.ca_certificate, keeps_authority);
        let again = Credentials::load_or_create(directory.path(), address(1)).unwrap();
        assert_eq!(again.certificate, found.certificate);
    }
}

#[test]
fn a_certificate_is_valid_from_2020_until_at_least_nine_years_after_2026_whatever_the_clock_says() {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    let expires = set_validity(&mut params);
    assert_eq!(params.not_before, rcgen::date_time_ymd(FIRST_YEAR, 1, 1));
    assert!(expires > THIS_PROGRAM + 9 * 365 * DAY);
}

#[test]
fn a_kubeconfig_is_written_again_only_if_its_content_or_mode_differs() {
    let directory = tempfile::tempdir().unwrap();
    let credentials = Credentials::load_or_create(directory.path(), address(1)).unwrap();
    let path = directory.path().join("kubeconfig");
    let write = |credentials: &Credentials| {
        credentials.write_kubeconfig(&path).unwrap();
        fs::metadata(&path).unwrap().ino()
    };
    let first = write(&credentials);
    assert_eq!(write(&credentials), first);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let narrowed = write(&credentials);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let moved = Credentials { server: address(2), ..credentials };
    assert_ne!(write(&moved), narrowed);
}

#[test]
fn a_damaged_credentials_file_is_an_error_and_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(FILE), "{").unwrap();
    let error = Credentials::load_or_create(directory.path(), address(1)).unwrap_err();
    assert!(matches!(error, CredentialsError::Parse { .. }));
    assert_eq!(fs::read(directory.path().join(FILE)).unwrap(), b"{");
}
