//! What is worth an Event. Pure.

/// The most bytes that the API takes of a note (kubernetes `pkg/apis/events`, `noteLengthLimit`).
const NOTE: usize = 1024;

/// Something that happened to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Whether something went wrong, so that somebody may have to act.
    pub is_warning: bool,
    /// What happened, in one word that never changes: Events are filtered by it.
    pub reason: &'static str,
    /// The action in whose course it happened, in one word that never changes.
    pub action: &'static str,
    /// The path of the object's field that it is about; `None` for the whole object.
    pub part: Option<String>,
    text: String,
}

impl Note {
    /// Something went wrong.
    #[must_use]
    pub fn warning(reason: &'static str, action: &'static str, text: String) -> Self {
        Self { is_warning: true, reason, action, part: None, text }
    }

    /// Something went well.
    #[must_use]
    pub fn normal(reason: &'static str, action: &'static str, text: String) -> Self {
        Self { is_warning: false, ..Self::warning(reason, action, text) }
    }

    /// The same note about a part of the object.
    #[must_use]
    pub fn of_part(self, part: String) -> Self {
        Self { part: Some(part), ..self }
    }

    /// What happened, cut to the length that an Event takes.
    #[must_use]
    pub fn text(&self) -> String {
        if self.text.len() <= NOTE {
            return self.text.clone();
        }
        let end = (0..=NOTE - '…'.len_utf8()).rev().find(|at| self.text.is_char_boundary(*at));
        format!("{}…", &self.text[..end.unwrap_or(0)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_ends_where_a_letter_does() {
        let note = |text: String| Note::normal("X", "Y", text).text();
        assert_eq!(note("short".into()), "short");
        assert_eq!(note("x".repeat(1024)).len(), 1024);
        for text in ["x".repeat(2000), "é".repeat(1000), "€".repeat(500)] {
            let note = note(text);
            assert!(
                note.len() <= 1024 && note.len() > 1018 && note.ends_with('…'),
                "{}",
                note.len()
            );
        }
    }
}
