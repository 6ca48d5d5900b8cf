//! The table of figures that a bench prints.

/// One figure: our value, the value that it is compared with, and their ratio.
#[derive(Debug, Clone)]
pub struct Row {
    what: String,
    ours: String,
    other: String,
    ratio: String,
}

impl Row {
    /// Makes a row of two numbers of one unit.
    pub fn ratio(what: &str, ours: f64, other_name: &str, other: f64, unit: &str) -> Self {
        Self {
            what: what.to_owned(),
            ours: format!("{ours:.2} {unit}"),
            other: format!("{other:.2} {unit} {other_name}"),
            ratio: if other == 0.0 { "-".to_owned() } else { format!("{:.3}", ours / other) },
        }
    }

    /// Makes a row of one number, without a comparison.
    pub fn plain(what: &str, ours: f64, unit: &str) -> Self {
        let ours = format!("{ours:.2} {unit}");
        Self { what: what.to_owned(), ours, other: String::new(), ratio: String::new() }
    }
}

/// Prints the rows in columns.
pub fn print(rows: &[Row]) {
    let width =
        |column: fn(&Row) -> &str| rows.iter().map(|row| column(row).len()).max().unwrap_or(0);
    let (what, ours, other) =
        (width(|row| &row.what), width(|row| &row.ours), width(|row| &row.other));
    say(&format!("{:what$}  {:>ours$}  {:other$}  ratio", "", "ours", "compared with"));
    for row in rows {
        say(&format!(
            "{:what$}  {:>ours$}  {:other$}  {}",
            row.what, row.ours, row.other, row.ratio
        ));
    }
}

/// Prints a line for the person who runs the bench.
#[expect(clippy::print_stdout, reason = "the bench talks to the person who runs it")]
pub fn say(line: &str) {
    println!("{line}");
}
