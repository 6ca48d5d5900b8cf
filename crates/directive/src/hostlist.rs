//! Host lists as Flux and Slurm write them (RFC 29): `compute-[1-3,08-10],login`.
//!
//! Order and repetitions are kept. The numbers of a range are padded with leading zeros to the length of the range's
//! first number. Unlike Flux's library, this parser refuses `a[1-]`, a second pair of brackets, and numbers of more
//! than 64 bits: Flux's library reads such lists as other hosts than the author meant.

use thiserror::Error;
use winnow::ascii::digit1;
use winnow::combinator::{delimited, eof, opt, preceded, separated, terminated};
use winnow::token::take_while;
use winnow::{ModalResult, Parser};

/// Largest number of hosts in a list.
const MOST: usize = 1 << 20;

/// Error: the text is not a host list.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostlistError {
    #[error("{0:?} is not a host list; write names and ranges, as in compute-[1-3,8],login")]
    Malformed(String),
    #[error(
        "{0:?}: the first number of a range exceeds its second; write the smaller number first"
    )]
    Reversed(String),
    #[error("{0:?} names more than 1048576 hosts; write a shorter list")]
    TooMany(String),
}

/// Returns the hosts of a list, in its order.
///
/// # Errors
/// When the text is not a host list, or names more than 1048576 hosts.
pub fn expand(text: &str) -> Result<Vec<String>, HostlistError> {
    let expressions =
        expressions.parse(text).map_err(|_| HostlistError::Malformed(text.to_owned()))?;
    let mut hosts = Vec::new();
    for Expression { prefix, ranges } in expressions {
        let Some((ranges, suffix)) = ranges else {
            hosts.push(prefix.to_owned());
            continue;
        };
        for range in ranges {
            let (low, high, width) = range.bounds(text)?;
            if high - low >= u64::try_from(MOST.saturating_sub(hosts.len())).unwrap_or_default() {
                return Err(HostlistError::TooMany(text.to_owned()));
            }
            hosts.extend((low..=high).map(|number| format!("{prefix}{number:0width$}{suffix}")));
        }
    }
    Ok(hosts)
}

/// Part of a list between commas: `prefix`, or `prefix[ranges]suffix`.
#[derive(Debug)]
struct Expression<'a> {
    prefix: &'a str,
    ranges: Option<(Vec<Range<'a>>, &'a str)>,
}

#[derive(Debug)]
struct Range<'a> {
    low: &'a str,
    high: Option<&'a str>,
}

impl Range<'_> {
    /// Returns the first and last number of a range, and the number of digits to which numbers are
    /// padded with leading zeros.
    fn bounds(&self, text: &str) -> Result<(u64, u64, usize), HostlistError> {
        let number = |digits: &str| {
            digits.parse::<u64>().map_err(|_| HostlistError::Malformed(text.to_owned()))
        };
        let (low, high) = (number(self.low)?, number(self.high.unwrap_or(self.low))?);
        if low > high {
            return Err(HostlistError::Reversed(text.to_owned()));
        }
        Ok((low, high, self.low.len()))
    }
}

fn is_blank(character: char) -> bool {
    matches!(character, ',' | ' ' | '\t')
}

fn expressions<'a>(input: &mut &'a str) -> ModalResult<Vec<Expression<'a>>> {
    let blanks = |least: usize| take_while(least.., is_blank);
    preceded(blanks(0), terminated(separated(0.., expression, blanks(1)), (blanks(0), eof)))
        .parse_next(input)
}

fn expression<'a>(input: &mut &'a str) -> ModalResult<Expression<'a>> {
    let name = |least: usize| {
        take_while(least.., |c: char| !is_blank(c) && !c.is_whitespace() && !"[]".contains(c))
    };
    let range = (digit1, opt(preceded('-', digit1))).map(|(low, high)| Range { low, high });
    let ranges = delimited('[', separated(1.., range, ','), ']');
    (name(0), opt((ranges, name(0))))
        .verify(|(prefix, ranges): &(&str, Option<(Vec<Range<'_>>, &str)>)| {
            !prefix.is_empty() || ranges.is_some()
        })
        .map(|(prefix, ranges)| Expression { prefix, ranges })
        .parse_next(input)
}

/// Returns the host list of these hosts, in their order.
#[must_use]
pub fn compress<T: AsRef<str>>(hosts: &[T]) -> String {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for host in hosts {
        let host = Host::split(host.as_ref());
        match groups.last_mut() {
            Some(group)
                if group.prefix == host.prefix
                    && host.number.is_some()
                    && !group.runs.is_empty() =>
            {
                group.add(host);
            }
            _ => groups.push(Group::new(host)),
        }
    }
    let texts: Vec<String> = groups.iter().map(Group::text).collect();
    texts.join(",")
}

/// Sorts hosts as Flux does: by prefix, then by number of digits, then by number.
pub fn sort<T: AsRef<str>>(hosts: &mut [T]) {
    hosts.sort_by(|left, right| {
        Host::split(left.as_ref()).order().cmp(&Host::split(right.as_ref()).order())
    });
}

/// Returns hosts sorted as by [`sort`], each host once.
#[must_use]
pub fn sort_unique<T: AsRef<str> + PartialEq>(mut hosts: Vec<T>) -> Vec<T> {
    sort(&mut hosts);
    hosts.dedup();
    hosts
}

/// A host's name, split before its trailing digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Host<'a> {
    prefix: &'a str,
    digits: &'a str,
    /// The trailing digits as a number; `None` without digits, or if the number exceeds 64 bits.
    number: Option<u64>,
}

impl<'a> Host<'a> {
    fn split(name: &'a str) -> Self {
        let prefix = name.trim_end_matches(|character: char| character.is_ascii_digit());
        let digits = name.get(prefix.len()..).unwrap_or_default();
        match digits.parse() {
            Ok(number) => Self { prefix, digits, number: Some(number) },
            Err(_) => Self { prefix: name, digits: "", number: None },
        }
    }

    fn order(self) -> (&'a str, usize, Option<u64>) {
        (self.prefix, self.digits.len(), self.number)
    }
}

/// Consecutive hosts with the same prefix.
#[derive(Debug)]
struct Group<'a> {
    prefix: &'a str,
    runs: Vec<Run<'a>>,
}

/// Range of consecutive numbers.
#[derive(Debug)]
struct Run<'a> {
    first: &'a str,
    last: &'a str,
    number: u64,
}

impl<'a> Group<'a> {
    fn new(host: Host<'a>) -> Self {
        let mut group = Self { prefix: host.prefix, runs: Vec::new() };
        group.add(host);
        group
    }

    fn add(&mut self, host: Host<'a>) {
        let Some(number) = host.number else { return };
        if let Some(run) = self.runs.last_mut()
            && run.number.checked_add(1) == Some(number)
            && host.digits == format!("{number:0width$}", width = run.first.len())
        {
            (run.last, run.number) = (host.digits, number);
            return;
        }
        self.runs.push(Run { first: host.digits, last: host.digits, number });
    }

    fn text(&self) -> String {
        let run = |run: &Run<'_>| {
            if run.first == run.last {
                run.first.to_owned()
            } else {
                format!("{}-{}", run.first, run.last)
            }
        };
        match self.runs.as_slice() {
            [] => self.prefix.to_owned(),
            [run] if run.first == run.last && !self.prefix.is_empty() => {
                format!("{}{}", self.prefix, run.first)
            }
            [run] if run.first == run.last => run.first.to_owned(),
            runs => {
                format!("{}[{}]", self.prefix, runs.iter().map(run).collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests;
