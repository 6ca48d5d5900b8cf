//! Carves, formats and mounts storage on a rabbit.

fn main() {}
