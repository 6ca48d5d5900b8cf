//! Kubernetes quantities: a number and a suffix that scales it.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Suffixes of quantities; each suffix has a multiplier and a divisor.
const SUFFIXES: [(&str, i128, i128); 16] = [
    ("", 1, 1),
    ("n", 1, 1_000_000_000),
    ("u", 1, 1_000_000),
    ("m", 1, 1000),
    ("k", 1000, 1),
    ("M", 1_000_000, 1),
    ("G", 1_000_000_000, 1),
    ("T", 1_000_000_000_000, 1),
    ("P", 1_000_000_000_000_000, 1),
    ("E", 1_000_000_000_000_000_000, 1),
    ("Ki", 1 << 10, 1),
    ("Mi", 1 << 20, 1),
    ("Gi", 1 << 30, 1),
    ("Ti", 1 << 40, 1),
    ("Pi", 1 << 50, 1),
    ("Ei", 1 << 60, 1),
];

/// Converts a quantity to a number of parts, rounded up; one unit has `per_unit` parts. Returns `None` if the
/// quantity is not positive.
#[must_use]
pub(crate) fn parts(quantity: &Quantity, per_unit: i128) -> Option<i64> {
    let text = quantity.0.as_str();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (_, by, per) = SUFFIXES.into_iter().find(|(name, ..)| *name == suffix)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{part}").parse().ok()?;
    let scale = 10_i128.checked_pow(u32::try_from(part.len()).ok()?)?.checked_mul(per)?;
    let all = digits.checked_mul(by)?.checked_mul(per_unit)?;
    let parts = i64::try_from(all.checked_add(scale - 1)? / scale).ok()?;
    (parts > 0).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_converts_quantities_with_and_without_suffix_and_rounds_up() {
        for (text, per_unit, expected) in [
            ("8", 1000, Some(8000)),
            ("250m", 1000, Some(250)),
            ("0.1", 1000, Some(100)),
            ("1.5", 1000, Some(1500)),
            ("1u", 1000, Some(1)),
            ("4Gi", 1, Some(4 << 30)),
            ("1.5Ki", 1, Some(1536)),
            ("2M", 1, Some(2_000_000)),
            ("0", 1, None),
            ("-1", 1, None),
            ("1e3", 1, None),
            ("x", 1, None),
            ("", 1, None),
            ("99999999999999E", 1, None),
        ] {
            assert_eq!(parts(&Quantity(text.to_owned()), per_unit), expected, "{text}");
        }
    }
}
