use super::*;
use std::os::unix::fs::MetadataExt;

fn address(port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)
}

#[test]
fn credentials_outlive_a_restart_and_follow_the_address() {
    let directory = tempfile::tempdir().unwrap();
    let first = Credentials::load_or_create(directory.path(), address(1)).unwrap();
    let again = Credentials::load_or_create(directory.path(), address(1)).unwrap();
    assert_eq!((&first.token, &first.certificate), (&again.token, &again.certificate));
    let moved = Credentials::load_or_create(directory.path(), address(2)).unwrap();
    assert_eq!((&first.token, &first.ca_certificate), (&moved.token, &moved.ca_certificate));
    assert_ne!(first.certificate, moved.certificate);
}

#[test]
fn only_the_owner_reads_them() {
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

/// What an earlier version left that was started with its clock ten days ahead.
fn made_ahead(directory: &Path, authority_too: bool) -> Credentials {
    let made = Credentials::load_or_create(directory, address(1)).unwrap();
    let later = Timestamp::now() + jiff::SignedDuration::from_hours(240);
    let later = later.to_zoned(TimeZone::UTC).date();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let number = |number: i8| u8::try_from(number).unwrap();
    params.not_before =
        rcgen::date_time_ymd(later.year().into(), number(later.month()), number(later.day()));
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let ahead = match authority_too {
        true => Credentials { ca_certificate: pem.clone(), certificate: pem, ..made },
        false => Credentials { certificate: pem, ..made },
    };
    fs::write(directory.join(FILE), serde_json::to_vec(&ahead).unwrap()).unwrap();
    ahead
}

#[test]
fn a_certificate_that_is_not_valid_yet_is_replaced() {
    for authority_too in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let ahead = made_ahead(directory.path(), authority_too);
        let now = Timestamp::now().as_second();
        let found = Credentials::load_or_create(directory.path(), address(1)).unwrap();
        for pem in [&found.ca_certificate, &found.certificate] {
            assert!(not_before(pem).unwrap() <= now);
        }
        assert_eq!(found.token == ahead.token, !authority_too);
        assert_eq!(found.ca_certificate == ahead.ca_certificate, !authority_too);
        let again = Credentials::load_or_create(directory.path(), address(1)).unwrap();
        assert_eq!(again.certificate, found.certificate);
    }
}

#[test]
fn a_clock_that_is_wrong_costs_no_authority() {
    let directory = tempfile::tempdir().unwrap();
    let made = Credentials::load_or_create(directory.path(), address(1)).unwrap();
    let now = Timestamp::now().as_second();
    let of_authority = |now: i64| made.fault(now).unwrap().map(|fault| fault.of_authority);
    // Behind, as far as a clock without a battery; ahead, by what is left.
    for now in [0, 1_600_000_000, now - 9 * 365 * DAY, now, now + 7 * 365 * DAY] {
        assert_eq!(of_authority(now), None, "{now}");
    }
    assert_eq!(of_authority(now + 9 * 365 * DAY), Some(true));
}

#[test]
fn a_kubeconfig_that_says_the_same_is_left_alone() {
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
fn a_damaged_file_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(FILE), "{").unwrap();
    let error = Credentials::load_or_create(directory.path(), address(1)).unwrap_err();
    assert!(matches!(error, CredentialsError::Parse { .. }));
    assert_eq!(fs::read(directory.path().join(FILE)).unwrap(), b"{");
}
