//! Decodes logs in conmon's k8s-file format: time, stream, `F` if the line ends here or else `P`, text.

/// Maximum number of bytes that are kept of a log.
pub(super) const MAX_BYTES: usize = 8 << 10;

/// Returns the text at the end of a log file. If the start of the file was cut off, drops the rest of the first line.
pub(super) fn decode(file: &str, is_cut: bool) -> String {
    let mut lines = file.lines();
    if is_cut {
        lines.next();
    }
    let mut text = String::new();
    for line in lines {
        let mut parts = line.splitn(4, ' ');
        let (Some(_), Some(_), Some(tag)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        text.push_str(parts.next().unwrap_or_default());
        if tag.starts_with('F') {
            text.push('\n');
        }
    }
    let mut start = text.len().saturating_sub(MAX_BYTES);
    if start > 0 {
        start +=
            text.as_bytes()[start..].iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        while !text.is_char_boundary(start) {
            start += 1;
        }
    }
    text.split_off(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_streams_keep_their_order() {
        let file = "2026-11-26T12:00:00.1+00:00 stdout F first  line\n\
                    2026-11-26T12:00:00.2+00:00 stderr P long \n\
                    2026-11-26T12:00:00.3+00:00 stderr F line\n\
                    2026-11-26T12:00:00.4+00:00 stdout F \n";
        assert_eq!(decode(file, false), "first  line\nlong line\n\n");
        assert_eq!(decode(&file[10..], true), "long line\n\n");
    }

    #[test]
    fn a_shortened_log_keeps_whole_lines_of_its_end() {
        let line = format!("t stdout F {}\n", "ä".repeat(500));
        let kept = decode(&line.repeat(100), false);
        assert!(kept.len() <= MAX_BYTES && kept.len() > MAX_BYTES - 1002, "{}", kept.len());
        assert!(kept.starts_with('ä') && kept.ends_with("ä\n"));
    }
}
