//! The commands of a page: its fenced blocks of shell, each with the hosts that the section's heading names.

use anyhow::{Context, ensure};

/// A block of commands, and the hosts on which an operator pastes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub heading: String,
    pub hosts: Vec<String>,
    pub commands: String,
}

/// Returns the blocks of a page in its order; those of one section are one step.
pub(super) fn steps(page: &str) -> anyhow::Result<Vec<Step>> {
    let mut steps = Vec::new();
    for section in page.split("\n## ").skip(1) {
        let heading = section.lines().next().unwrap_or_default();
        let commands = blocks(section);
        if !commands.is_empty() {
            let hosts = hosts(heading).with_context(|| {
                format!("the heading {heading:?} names no host: write \"…, on HOST\"")
            })?;
            steps.push(Step { heading: heading.to_owned(), hosts, commands });
        }
    }
    let fences = page.lines().filter(|line| *line == "```sh").count();
    ensure!(fences >= steps.len() && !steps.is_empty(), "the page has {fences} blocks of shell");
    Ok(steps)
}

fn blocks(section: &str) -> String {
    let pieces = section.split("\n```sh\n").skip(1);
    pieces.map(|piece| piece.split("\n```").next().unwrap_or_default().to_owned() + "\n").collect()
}

fn hosts(heading: &str) -> Option<Vec<String>> {
    match heading.rsplit_once(", on ")?.1 {
        "each compute" => Some((1..=4).map(|number| format!("compute-{number}")).collect()),
        host => Some(vec![host.to_owned()]),
    }
}

/// Returns the lines of commands that are indented in a section, as `docs/operate/install.md` has them.
pub(super) fn indented(page: &str, section: &str) -> anyhow::Result<String> {
    let found = page.split("\n## ").find(|text| text.starts_with(section));
    let text = found.with_context(|| format!("no section {section:?}"))?;
    let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    ensure!(!lines.is_empty(), "the section {section:?} has no commands");
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_section_run_in_order_on_the_hosts_of_its_heading() {
        let page = "# A\n\n```sh\nno\n```\n\n## 1. B, on b-1\n\n```sh\none\ntwo\n```\n\nText.\n\n    no\n\n```sh\nthree\n```\n\n## C\n\ntext\n\n## 2. D, on each compute\n\n```sh\nfour\n```\n";
        let found = steps(page).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(
            (&found[0].hosts[..], &*found[0].commands),
            (&["b-1".to_owned()][..], "one\ntwo\nthree\n")
        );
        assert_eq!((found[1].hosts.len(), &*found[1].commands), (4, "four\n"));
        assert!(
            steps("# A\n\n## B\n\n```sh\none\n```\n").unwrap_err().to_string().contains("\"B\"")
        );
        assert_eq!(
            indented("# A\n\n## B b\n\n    one\n\ntext\n\n    two\n\n## C\n\n    no\n", "B")
                .unwrap(),
            "one\ntwo\n"
        );
    }

    #[test]
    fn each_section_of_the_page_with_commands_names_a_host_of_the_site() {
        for step in steps(super::super::PAGE).unwrap() {
            let known =
                |host: &String| super::super::site::HOSTS.iter().any(|(name, ..)| name == host);
            assert!(step.hosts.iter().all(known), "{step:?}");
        }
    }
}
