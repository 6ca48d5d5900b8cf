use super::*;

#[test]
fn a_panic_is_reported_with_its_object() {
    let pass =
        Pass::panicked(&Key::BlockStorage("job-7-0".into()), &Panicked::from_payload(&"a bug"));
    let text = &pass.failures[0];
    assert!(text.starts_with("NnfNodeBlockStorage job-7-0: ") && text.ends_with("a bug"));
}
