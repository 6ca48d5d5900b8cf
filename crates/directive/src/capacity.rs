//! Parses sizes as people write them, and computes with them exactly: `10GiB`, `1.1PB`, a factor such as `1.25`, a
//! padding such as `300MiB` or `3.5%`.
//!
//! K, M, G, T and P are powers of 1000, Ki to Pi powers of 1024; a trailing B changes nothing. The lower-case `k` is
//! refused: the Go controllers, which Warren replaces, read it as zero.

use std::str::FromStr;

use thiserror::Error;
use winnow::ascii::digit0;
use winnow::combinator::{alt, eof, opt, preceded, terminated};
use winnow::{ModalResult, Parser};

/// Largest size in bytes that a Kubernetes field of type int64 holds.
pub const GREATEST: u64 = i64::MAX.unsigned_abs();

/// Smallest size of a Lustre target in bytes: mkfs fails for smaller targets, on ldiskfs and on ZFS.
pub const LUSTRE_LEAST: u64 = 4_000_000_000;

/// Error: the text is not a size, factor or padding.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CapacityError {
    #[error(
        "not a size; write a number and a unit, such as 10GiB or 1.5TB (units: KB MB GB TB PB KiB MiB GiB TiB PiB)"
    )]
    NoSize,
    #[error("not a factor; write a decimal number greater than 0, such as 1.0 or 1.25")]
    NoFactor,
    #[error("a size of 0; write the bytes that are needed, such as 1GiB")]
    Zero,
    #[error(
        "more than the 2^63 - 1 bytes (8 EiB) that an allocation can have; write a smaller size"
    )]
    TooLarge,
    #[error("more than 18 decimals; write at most 18")]
    TooPrecise,
    #[error("a factor of 0 leaves no capacity; write a factor greater than 0")]
    ZeroFactor,
}

/// Returns the bytes of a size such as `10GiB`. Fractions of a byte are rounded to the nearest byte.
///
/// # Errors
/// When the text is not a size, or exceeds [`GREATEST`].
pub fn bytes(text: &str) -> Result<u64, CapacityError> {
    let Ok((number, unit)) = (decimal, unit).parse(text) else { return Err(CapacityError::NoSize) };
    let number = number?;
    let whole = number.numerator.checked_mul(u128::from(unit)).ok_or(CapacityError::TooLarge)?;
    let rounded = whole.checked_add(number.denominator / 2).ok_or(CapacityError::TooLarge)?
        / number.denominator;
    refuse_beyond_greatest(rounded)
}

/// Returns the size, unless it is 0.
///
/// # Errors
/// When the size is 0.
pub fn not_zero(bytes: u64) -> Result<u64, CapacityError> {
    if bytes == 0 { Err(CapacityError::Zero) } else { Ok(bytes) }
}

fn refuse_beyond_greatest(bytes: u128) -> Result<u64, CapacityError> {
    let bytes = u64::try_from(bytes).map_err(|_| CapacityError::TooLarge)?;
    if bytes > GREATEST { Err(CapacityError::TooLarge) } else { Ok(bytes) }
}

/// A decimal number as a fraction whose denominator is a power of 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    numerator: u128,
    denominator: u128,
}

/// Parses digits; a decimal point may stand before, among or after them.
fn decimal(input: &mut &str) -> ModalResult<Result<Decimal, CapacityError>> {
    (digit0, opt(preceded('.', digit0)))
        .verify(|(whole, fraction): &(&str, Option<&str>)| {
            whole.len() + fraction.map_or(0, str::len) > 0
        })
        .map(|(whole, fraction)| Decimal::new(whole, fraction.unwrap_or_default()))
        .parse_next(input)
}

/// Parses a unit; a missing unit means bytes.
fn unit(input: &mut &str) -> ModalResult<u64> {
    let scale = alt((
        alt((
            "Ki".value(1 << 10),
            "Mi".value(1 << 20),
            "Gi".value(1 << 30),
            "Ti".value(1 << 40),
            "Pi".value(1 << 50),
        )),
        alt(("K".value(1_000), "M".value(1_000_000), "G".value(1_000_000_000))),
        alt(("T".value(1_000_000_000_000), "P".value(1_000_000_000_000_000))),
    ));
    terminated(opt(scale), (opt('B'), eof))
        .map(|scale: Option<u64>| scale.unwrap_or(1))
        .parse_next(input)
}

impl Decimal {
    fn new(whole: &str, fraction: &str) -> Result<Self, CapacityError> {
        let fraction = fraction.trim_end_matches('0');
        let places = u32::try_from(fraction.len()).map_err(|_| CapacityError::TooPrecise)?;
        if places > 18 {
            return Err(CapacityError::TooPrecise);
        }
        let digits = format!("0{whole}{fraction}");
        let numerator = digits.parse().map_err(|_| CapacityError::TooLarge)?;
        Ok(Self { numerator, denominator: 10_u128.pow(places) })
    }
}

/// Factor by which a profile multiplies a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor(Decimal);

impl Factor {
    /// Returns the product, rounded down to whole bytes.
    ///
    /// # Errors
    /// When the product exceeds [`GREATEST`].
    pub fn applied_to(self, bytes: u64) -> Result<u64, CapacityError> {
        let product =
            self.0.numerator.checked_mul(u128::from(bytes)).ok_or(CapacityError::TooLarge)?;
        refuse_beyond_greatest(product / self.0.denominator)
    }
}

impl FromStr for Factor {
    type Err = CapacityError;

    /// Parses a factor; an empty text is the factor 1.
    fn from_str(text: &str) -> Result<Self, CapacityError> {
        if text.is_empty() {
            return Ok(Self(Decimal { numerator: 1, denominator: 1 }));
        }
        let number =
            terminated(decimal, eof).parse(text).map_err(|_| CapacityError::NoFactor)??;
        if number.numerator == 0 { Err(CapacityError::ZeroFactor) } else { Ok(Self(number)) }
    }
}

/// Size that a profile adds to a capacity for metadata, so that users can fill the capacity that they asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padding(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bytes(u64),
    /// Percentage of the capacity, as a fraction.
    Percent(Decimal),
}

impl Padding {
    /// Returns the padded capacity; a percentage is rounded up to whole bytes.
    ///
    /// # Errors
    /// When the padded capacity exceeds [`GREATEST`].
    pub fn added_to(self, bytes: u64) -> Result<u64, CapacityError> {
        let padding = match self.0 {
            Kind::Bytes(padding) => u128::from(padding),
            Kind::Percent(Decimal { numerator, denominator }) => {
                let product =
                    numerator.checked_mul(u128::from(bytes)).ok_or(CapacityError::TooLarge)?;
                product.div_ceil(denominator * 100)
            }
        };
        refuse_beyond_greatest(
            padding.checked_add(u128::from(bytes)).ok_or(CapacityError::TooLarge)?,
        )
    }

    /// Returns the capacity that a padded size leaves for users: the largest capacity that [`Self::added_to`] pads to
    /// at most `padded`; 0 when the padding alone is larger.
    #[must_use]
    pub fn removed_from(self, padded: u64) -> u64 {
        match self.0 {
            Kind::Bytes(padding) => padded.saturating_sub(padding),
            Kind::Percent(Decimal { numerator, denominator }) => {
                let hundred = denominator * 100;
                let visible =
                    hundred.checked_mul(u128::from(padded)).zip(hundred.checked_add(numerator));
                let visible = visible.map_or(0, |(product, whole)| product / whole);
                u64::try_from(visible).unwrap_or(padded)
            }
        }
    }
}

impl FromStr for Padding {
    type Err = CapacityError;

    /// Parses a padding; an empty text is no padding.
    fn from_str(text: &str) -> Result<Self, CapacityError> {
        if text.is_empty() {
            return Ok(Self(Kind::Bytes(0)));
        }
        if let Ok(number) = terminated(decimal, ('%', eof)).parse(text) {
            return Ok(Self(Kind::Percent(number?)));
        }
        bytes(text).map(|padding| Self(Kind::Bytes(padding)))
    }
}

#[cfg(test)]
mod tests;
