use std::error::Error;

/// An error with all its causes, but for those that the error before them tells already, as libraries' errors do.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut last = error.to_string();
    let mut text = last.clone();
    let mut next = error.source();
    while let Some(cause) = next {
        let told = cause.to_string();
        if !last.contains(&told) {
            text = format!("{text}: {told}");
            last = told;
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    fn linked(texts: &[&'static str]) -> Option<Box<Link>> {
        let (first, rest) = texts.split_first()?;
        Some(Box::new(Link { text: first, source: linked(rest) }))
    }

    #[test]
    fn every_cause_is_told_once() {
        for (texts, told) in [
            (&["mount /a", "mount(2)", "no such device"][..], "mount /a: mount(2): no such device"),
            (
                &["write x", "service: refused", "refused", "errno 111"],
                "write x: service: refused: errno 111",
            ),
            (&["alone"], "alone"),
        ] {
            assert_eq!(chain(&*linked(texts).unwrap()), told);
        }
    }
}
