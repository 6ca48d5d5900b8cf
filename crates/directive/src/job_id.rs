//! Job ids of Flux in F58, the plain spelling of RFC 19: `f`, and the number in base 58 with Bitcoin's digits.

use thiserror::Error;

const DIGITS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/// Prefix that Flux writes instead of `f` where a terminal can show it.
const FANCY: char = 'ƒ';

/// Error: the text is not a job id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} is not an F58 job id; write f and digits of base 58, as in f2AVx5nQsoRy, or the decimal id"
)]
pub struct NoJobId(pub String);

/// Returns the number of a job id in F58 or decimal.
///
/// # Errors
/// When the text is neither F58 nor decimal, or the number exceeds 64 bits.
pub fn number(text: &str) -> Result<u64, NoJobId> {
    let none = || NoJobId(text.to_owned());
    let Some(digits) = text.strip_prefix(['f', FANCY]) else {
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
        return text.parse().ok().filter(|_| is_decimal).ok_or_else(none);
    };
    if digits.is_empty() {
        return Err(none());
    }
    digits.bytes().try_fold(0, append_digit).ok_or_else(none)
}

fn append_digit(number: u64, byte: u8) -> Option<u64> {
    let digit = DIGITS.iter().position(|digit| *digit == byte)?;
    number.checked_mul(58)?.checked_add(u64::try_from(digit).ok()?)
}

#[cfg(test)]
mod tests;
