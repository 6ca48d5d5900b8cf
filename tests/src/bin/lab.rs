//! `make lab`: the scenarios that need guests.

use std::process::ExitCode;

use tests::lab::{Assets, report::complain, scenarios};

fn main() -> ExitCode {
    let names: Vec<_> = std::env::args().skip(1).collect();
    let asked = Assets::given().and_then(|assets| Ok((assets, scenarios::named(&names)?)));
    match asked {
        Ok((assets, scenarios)) if scenarios::run(&assets, &scenarios) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("lab: {error:#}"));
            ExitCode::from(2)
        }
    }
}
