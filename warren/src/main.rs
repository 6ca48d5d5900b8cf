//! The operators' and prolog scripts' command.

fn main() {}
