use super::*;
use proptest::prelude::*;

fn factor(text: &str) -> Factor {
    text.parse().unwrap()
}

fn padding(text: &str) -> Padding {
    text.parse().unwrap()
}

#[test]
fn bytes_returns_the_exact_number_of_bytes() {
    for (text, expected) in [
        ("1000", 1000),
        ("10B", 10),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("1K", 1000),
        ("1Ki", 1024),
        ("50GB", 50_000_000_000),
        ("10GiB", 10_737_418_240),
        ("1.1PB", 1_100_000_000_000_000),
        ("1.", 1),
        (".1GiB", 107_374_182),
        ("0.5B", 1),
        ("04TB", 4_000_000_000_000),
        ("0MB", 0),
        ("9007199254740993", 9_007_199_254_740_993), // a floating-point number cannot hold it
        ("8191PiB", 8191 << 50),
        ("9223372036854775807", GREATEST),
    ] {
        assert_eq!(bytes(text), Ok(expected), "{text}");
    }
}

#[test]
fn a_text_that_is_not_a_size_is_refused() {
    for text in [
        "", "MB", "0BM", "0EB", "abc10GB", "10GBx", "1k", "1kB", "-1GB", "+1GB", "1 GB", " 1GB",
        ".", ".GB", "1e3", "1,5GB", "1mB", "١GB",
    ] {
        assert_eq!(bytes(text), Err(CapacityError::NoSize), "{text:?}");
    }
    assert_eq!(bytes("0MB").and_then(not_zero), Err(CapacityError::Zero));
}

#[test]
fn a_size_beyond_64_bits_or_18_decimals_is_refused() {
    for text in [
        "8192PiB",
        "9223372036854775808",
        "99999999999999999999999999999999999999999999PB",
        "340282366920938463463374607431768211455PiB",
    ] {
        assert_eq!(bytes(text), Err(CapacityError::TooLarge), "{text}");
    }
    assert_eq!(bytes("0.1234567890123456789GB"), Err(CapacityError::TooPrecise));
    assert_eq!(bytes("0.100000000000000000000000GB"), Ok(100_000_000));
}

#[test]
fn a_product_with_a_factor_is_rounded_down() {
    assert_eq!(factor("").applied_to(10), Ok(10));
    assert_eq!(factor("1.0").applied_to(10_737_418_240), Ok(10_737_418_240));
    assert_eq!(factor("1.1").applied_to(10), Ok(11));
    assert_eq!(factor("0.3").applied_to(10), Ok(3));
    assert_eq!(factor("1.25").applied_to(3), Ok(3));
    assert_eq!(factor("2").applied_to(GREATEST), Err(CapacityError::TooLarge));
    for text in ["0", "0.0", "0."] {
        assert_eq!(text.parse::<Factor>(), Err(CapacityError::ZeroFactor), "{text}");
    }
    for text in ["-1", "1GB", "inf", "NaN", "1e2", "one"] {
        assert_eq!(text.parse::<Factor>(), Err(CapacityError::NoFactor), "{text}");
    }
}

#[test]
fn a_padding_is_a_size_or_a_percentage() {
    assert_eq!(padding("300MiB").added_to(10_737_418_240), Ok(11_051_991_040));
    assert_eq!(padding("").added_to(5), Ok(5));
    assert_eq!(padding("3.5%").added_to(1000), Ok(1035));
    assert_eq!(padding("3.5%").added_to(1), Ok(2));
    assert_eq!(padding("300MiB").removed_from(100), 0);
    assert_eq!(padding("100%").added_to(GREATEST), Err(CapacityError::TooLarge));
    for text in ["5%%", "%", "5 %", "x%", "abc10GB"] {
        assert_eq!(text.parse::<Padding>(), Err(CapacityError::NoSize), "{text}");
    }
}

proptest! {
    /// Compares the parsed size with a computation in rational numbers.
    #[test]
    fn a_decimal_size_is_rounded_to_the_nearest_byte(whole in 0_u64..1 << 40, thousandths in 0_u64..1000) {
        let expected = u128::from(whole) * 1024 + (u128::from(thousandths) * 1024 * 2 + 1000) / 2000;
        prop_assert_eq!(u128::from(bytes(&format!("{whole}.{thousandths:03}KiB")).unwrap()), expected);
    }

    #[test]
    fn removing_a_padding_undoes_adding_it(size in 0..GREATEST / 4, tenths in 0_u32..3000, fixed in 0_u64..1 << 40) {
        for padding in [padding(&format!("{}.{}%", tenths / 10, tenths % 10)), padding(&fixed.to_string())] {
            if let Ok(padded) = padding.added_to(size) {
                prop_assert!(padded >= size);
                prop_assert_eq!(padding.removed_from(padded), size);
            }
        }
    }

    #[test]
    fn a_factor_of_one_changes_nothing(size in 0..=GREATEST, zeros in "0{0,18}") {
        prop_assert_eq!(factor(&format!("1.{zeros}")).applied_to(size), Ok(size));
    }
}
