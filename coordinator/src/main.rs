//! The one place that talks for thousands of computes.

fn main() {}
