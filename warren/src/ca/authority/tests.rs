use super::*;
use crate::ca::{Renewal, classify, named_hosts};

fn at(day: &str) -> Timestamp {
    format!("{day}T12:00:00Z").parse().unwrap()
}

fn authority(now: Timestamp) -> Authority {
    let made = Authority::create(now).unwrap();
    Authority::read(&made.certificate, &made.key, now).unwrap()
}

fn host(name: &str) -> HostNames {
    named_hosts(&[name.to_owned()]).unwrap().remove(0)
}

#[test]
fn a_certificate_is_valid_for_its_days_but_not_longer_than_the_authority() {
    let now = at("2027-02-28");
    let authority = authority(now);
    for (days, until) in
        [(1, "2027-03-02"), (365, "2028-02-29"), (3650, "2037-02-26"), (4000, "2037-03-01")]
    {
        let signed = authority.sign(&host("a"), None, Validity::new(now, days)).unwrap();
        assert_eq!(signed.expires.to_string(), until, "{days} days");
        let read = with_certificate(&signed.certificate, last_day).unwrap();
        assert_eq!(read, signed.expires);
    }
}

#[test]
fn refuses_another_key_a_host_and_an_expired_authority() {
    let now = at("2027-01-01");
    let (one, two) = (Authority::create(now).unwrap(), Authority::create(now).unwrap());
    let read = |certificate: &str, key: &str, now| {
        Authority::read(certificate, key, now).map(drop).unwrap_err().to_string()
    };
    let signed = authority(now).sign(&host("a"), None, Validity::new(now, 9)).unwrap();
    for (certificate, key, now, error) in [
        (&one.certificate, &two.key, now, "does not belong"),
        (&signed.certificate, &signed.key, now, "not that of an authority"),
        (&one.certificate, &one.key, at("2037-01-03"), "expired on 2037-01-02"),
        (&one.key, &one.key, now, "cannot be read"),
        (&String::new(), &one.key, now, "no PEM"),
        (&one.certificate, &one.certificate, now, "make a certificate"),
    ] {
        let found = read(certificate, key, now);
        assert!(found.contains(error), "{found:?} instead of {error:?}");
    }
}

#[test]
fn only_certificates_of_the_authority_that_expire_soon_are_due() {
    let now = at("2027-01-01");
    let authority = authority(now);
    let sign = |name, days| {
        authority.sign(&host(name), None, Validity::new(now, days)).unwrap().certificate
    };
    let foreign = self::authority(now).sign(&host("b"), None, Validity::new(now, 9)).unwrap();
    let names = host("b.hpc");
    for (certificate, within, expected) in [
        (sign("b.hpc", 9), 10, Renewal::Due(names.clone())),
        (sign("b.hpc", 9), i64::MAX, Renewal::Due(names)),
        (sign("b", 9), 9, Renewal::Later("2027-01-11".parse().unwrap())),
        (foreign.certificate, 10, Renewal::Foreign),
        (
            authority
                .sign(&HostNames { names: Vec::new(), ..host("b") }, None, Validity::new(now, 9))
                .unwrap()
                .certificate,
            10,
            Renewal::Nameless,
        ),
    ] {
        assert_eq!(classify("b", &certificate, &authority, day(now), within).unwrap(), expected);
    }
}

#[test]
fn a_renewed_certificate_has_its_key_and_another_serial_number() {
    let now = at("2027-01-01");
    let authority = authority(now);
    let first = authority.sign(&host("a"), None, Validity::new(now, 9)).unwrap();
    let again = authority.sign(&host("a"), Some(&first.key), Validity::new(now, 9)).unwrap();
    assert_eq!(again.key, first.key);
    let read = |pem: &str| {
        with_certificate(pem, |found| {
            (found.raw_serial().to_vec(), found.public_key().raw.to_vec())
        })
        .unwrap()
    };
    let (first, again) = (read(&first.certificate), read(&again.certificate));
    assert_eq!(first.1, again.1);
    assert_ne!(first.0, again.0);
}
