//! Stand-ins for several programs of Lustre and ZFS. The name by which this program is called selects the stand-in.

use std::{env, path::Path, process::ExitCode, thread};

use tests::lustre_tools::{self, Refusal};

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it stands in for programs that print"
)]
fn main() -> ExitCode {
    let words: Vec<String> = env::args().collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((program, rest)) = words.split_first() else { return ExitCode::FAILURE };
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program);
    match lustre_tools::run(name, rest) {
        Ok(output) => {
            print!("{output}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let (status, stdout) = match error.downcast_ref() {
                Some(Refusal::Ends { status, stdout, .. }) => (*status, stdout.as_str()),
                Some(Refusal::Hangs) => loop {
                    thread::park();
                },
                None => (1, ""),
            };
            print!("{stdout}");
            eprintln!("{error:#}");
            ExitCode::from(status)
        }
    }
}
