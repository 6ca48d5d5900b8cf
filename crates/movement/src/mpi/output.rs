//! The lines that `dcp` prints: its progress, and the statistics at its end.

/// Figures from the end of a log. mpirun may put text before each line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Percentage of the data that is copied.
    pub percent: Option<u8>,
    /// Last line of progress.
    pub line: Option<String>,
    /// Statistics; `None` until `dcp` has printed them.
    pub totals: Option<Totals>,
}

/// Statistics of an ended copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Seconds that the copy took, with a fraction.
    pub seconds: String,
    pub items: Option<i64>,
    pub directories: Option<i64>,
    pub files: Option<i64>,
    pub links: Option<i64>,
    /// Copied data, such as `18.626 GiB`.
    pub data: String,
    /// Mean rate, such as `111.243 MiB/s`.
    pub rate: String,
    pub bytes: Option<i64>,
}

/// Reads the figures in a log.
#[must_use]
pub fn read(log: &str) -> Figures {
    let progress = log.lines().rev().find_map(progress);
    let (percent, line) = progress.map(|(percent, line)| (percent, line.to_owned())).unzip();
    Figures { percent, line, totals: totals(log) }
}

/// Returns percentage and text of a line such as `Copied 1.000 GiB (10%) in 1.001 secs (4.174 GiB/s) 9 secs left ...`.
fn progress(line: &str) -> Option<(u8, &str)> {
    let line = &line[line.find("Copied ")?..];
    let (before, _) = line.split_once("%)")?;
    let digits = before.rsplit_once('(')?.1;
    let percent = digits.parse::<u8>().ok().filter(|percent| *percent <= 100)?;
    Some((percent, line.trim_end()))
}

/// Reads the statistics. `dcp` counts the source before it copies, in lines of the same form: the statistics begin with
/// the seconds.
fn totals(log: &str) -> Option<Totals> {
    let mut lines = log.lines().skip_while(|line| value(line, "Seconds: ").is_none()).peekable();
    let seconds = value(lines.peek()?, "Seconds: ")?.to_owned();
    let mut totals = Totals { seconds, ..Totals::default() };
    for line in lines {
        let number = |name| value(line, name).and_then(|text| text.parse::<i64>().ok());
        totals.items = number("Items: ").or(totals.items);
        totals.directories = number("Directories: ").or(totals.directories);
        totals.files = number("Files: ").or(totals.files);
        totals.links = number("Links: ").or(totals.links);
        if let Some(text) = value(line, "Data: ") {
            let (data, rest) = text.split_once(" (").unwrap_or((text, ""));
            totals.data = data.to_owned();
            totals.bytes = rest.split_once(" bytes").and_then(|(bytes, _)| bytes.parse().ok());
        }
        if let Some(text) = value(line, "Rate: ") {
            totals.rate = text.split_once(" (").map_or(text, |(rate, _)| rate).to_owned();
        }
    }
    Some(totals)
}

/// Returns the text after a name in a line.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_once(name).map(|(_, text)| text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of dcp 0.12, as the comments of nnf-dm have them, with the counts that dcp prints before it copies.
    const ENDED: &str = "[2024-07-25T16:44:33] Walked 2 items in 0.002 secs\n\
        [2024-07-25T16:44:33] Items: 9\n[2024-07-25T16:44:33] Data: 1.000 GiB (1.000 GiB per file)\n\
        [2024-07-25T16:44:40] Copied 1.000 GiB (10%) in 1.001 secs (4.174 GiB/s) 9 secs left ...\n\
        [2024-07-25T16:47:25] Copied 18.626 GiB (100%) in 171.434 secs (111.259 MiB/s) done\n\
        Copy data: 18.626 GiB (20000000000 bytes)\n\
        Copy rate: 111.258 MiB/s (20000000000 bytes in 171.434 seconds)\n\
        Sync completed in 0.017 seconds.\n\
        Completed: Jul-25-2024,16:47:25\nSeconds: 171.458\nItems: 2\n  Directories: 1\n  Files: 1\n  Links: 0\n\
        Data: 18.626 GiB (20000000000 bytes)\n\
        Rate: 111.243 MiB/s (20000000000 bytes in 171.458 seconds)\n";

    #[test]
    fn read_returns_the_last_progress() {
        for (log, percent) in [
            ("", None),
            ("Walking /in\nCopying to /out\n", None),
            ("Copied 1.000 GiB (10%) in 1.001 secs (4.174 GiB/s) 9 secs left ...\n", Some(10)),
            ("Copied 1.0 B (5%) in 1 secs\nCopied 2.0 B (7%) in 2 secs (1.0 B/s) 3 secs", Some(7)),
            ("[1,0]<stdout>:[2024-07-25T16:44:40] Copied 0.000 B (0%) in 0.1 secs", Some(0)),
            ("Copied 1.0 B (101%) in 1 secs", None),
            ("Copied nothing", None),
            (ENDED, Some(100)),
        ] {
            assert_eq!(read(log).percent, percent, "{log:?}");
        }
        let line = "Copied 18.626 GiB (100%) in 171.434 secs (111.259 MiB/s) done";
        assert_eq!(read(ENDED).line.as_deref(), Some(line));
    }

    #[test]
    fn read_returns_the_statistics_at_the_end_and_not_the_counts_of_the_source() {
        assert_eq!(
            read(ENDED).totals,
            Some(Totals {
                seconds: "171.458".to_owned(),
                items: Some(2),
                directories: Some(1),
                files: Some(1),
                links: Some(0),
                data: "18.626 GiB".to_owned(),
                rate: "111.243 MiB/s".to_owned(),
                bytes: Some(20_000_000_000),
            })
        );
        assert_eq!(read("Items: 2\nData: 1.000 GiB (1.000 GiB per file)\n").totals, None);
    }
}
