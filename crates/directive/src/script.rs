//! The directives of a job script. Pure.

use crate::directive::PREFIX;

/// The `#DW` lines among the comments that a script begins with, as Slurm's burst buffers find them: a line that ends with `\`
/// goes on in the next one, and the first line that is no comment ends them.
///
/// What is for Slurm alone is left out: the argument `pool`, and a line without a command, which claims capacity of a pool.
#[must_use]
pub fn of_script(script: &str) -> Vec<String> {
    let comments = script.lines().filter(|line| !line.is_empty());
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in comments.take_while(|line| line.starts_with('#')) {
        let Some(words) = line.strip_prefix(PREFIX).filter(|rest| is_apart(rest)) else {
            goes_on = false;
            continue;
        };
        let (words, more) = match words.strip_suffix('\\') {
            Some(words) => (words, true),
            None => (words, false),
        };
        match lines.last_mut().filter(|_| goes_on) {
            Some(line) => line.push_str(words),
            None => lines.push(words.to_owned()),
        }
        goes_on = more;
    }
    lines.iter().filter_map(|words| for_us(words)).collect()
}

fn is_apart(rest: &str) -> bool {
    rest.chars().next().is_none_or(char::is_whitespace)
}

fn for_us(words: &str) -> Option<String> {
    let words: Vec<&str> =
        words.split_whitespace().filter(|word| !word.starts_with("pool=")).collect();
    let claims = !words.is_empty() && words.iter().all(|word| word.contains('='));
    (!claims).then(|| format!("{PREFIX} {}", words.join(" ")).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_read_as_slurm_reads_them() {
        let script = "#!/bin/bash\n#SBATCH -N2\n\n#DW jobdw type=xfs capacity=1GiB \\\n#DW name=a pool=rabbit\n\
                      #DWARF\n#DW pool=rabbit capacity=1GiB\n#DW\tpersistentdw name=b\necho\n#DW jobdw late\n";
        assert_eq!(
            of_script(script),
            ["#DW jobdw type=xfs capacity=1GiB name=a", "#DW persistentdw name=b"]
        );
    }

    #[test]
    fn a_line_without_words_stays_for_its_message() {
        assert_eq!(of_script("#DW\n"), ["#DW"]);
        assert!(of_script("").is_empty());
        assert!(of_script("#!/bin/sh\n #DW jobdw\n").is_empty());
    }
}
