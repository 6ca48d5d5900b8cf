use super::*;
use serde_json::json;

fn delimited(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    field.extend_from_slice(bytes);
    field
}

fn envelope(kind: &str, raw: &[u8]) -> Vec<u8> {
    envelope_of("v1", kind, raw)
}

fn envelope_of(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let kind = [delimited(1, version.as_bytes()), delimited(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), delimited(1, &kind), delimited(2, raw), delimited(3, b""), delimited(4, b"")]
        .concat()
}

#[test]
fn a_secret_decodes_to_its_json() {
    let label = delimited(11, &[delimited(1, b"a"), delimited(2, b"b")].concat());
    let meta =
        [delimited(1, b"s"), delimited(2, b""), delimited(8, b""), label, vec![7 << 3, 3]].concat();
    let data = [delimited(1, b"k"), delimited(2, &[0xff])].concat();
    let raw = [delimited(1, &meta), delimited(2, &data), delimited(3, b"Opaque"), vec![5 << 3, 1]]
        .concat();
    let expected = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true,
            "metadata": {"name": "s", "generation": 3, "labels": {"a": "b"}}, "data": {"k": "/w=="}});
    assert_eq!(decode(&envelope("Secret", &raw)).unwrap(), expected);
}

#[test]
fn a_lease_decodes_to_its_json() {
    let time = delimited(4, &[1 << 3, 1, 2 << 3, 0xc0, 0x84, 0x3d]);
    let spec = [delimited(1, b"me"), vec![2 << 3, 15], time, vec![5 << 3, 0]].concat();
    let raw = [delimited(1, &delimited(1, b"l")), delimited(2, &spec)].concat();
    let bytes = envelope_of("coordination.k8s.io/v1", "Lease", &raw);
    let expected = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
            "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0,
                "renewTime": "1970-01-01T00:00:01.001000Z"}});
    assert_eq!(decode(&bytes).unwrap(), expected);
}

#[test]
fn an_unknown_kind_or_field_and_a_truncated_message_are_refused() {
    assert_eq!(decode(b"{}").unwrap_err().code, 400);
    assert_eq!(decode(&envelope("Pod", b"")).unwrap_err().code, 415);
    assert_eq!(decode(&envelope("Secret", &delimited(9, b"x"))).unwrap_err().code, 415);
    let whole = envelope("Secret", &delimited(1, &delimited(1, b"name")));
    for length in MAGIC.len() + 1..whole.len() - 4 {
        assert!(decode(whole.get(..length).unwrap()).is_err(), "{length} bytes");
    }
}
