//! Notes: the content of Events.

/// Largest size of a note that the API accepts, in bytes (kubernetes `pkg/apis/events`, `noteLengthLimit`).
const NOTE: usize = 1024;

/// A note about an object: a success, or a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// True for a fault, which a person may have to mend; false for a success.
    pub is_warning: bool,
    /// Reason: one constant word, by which users filter Events.
    pub reason: &'static str,
    /// Action that succeeded or failed: one constant word.
    pub action: &'static str,
    /// Path of the field that the note is about; `None` if the note is about the whole object.
    pub part: Option<String>,
    text: String,
}

impl Note {
    /// Returns a note about a fault.
    #[must_use]
    pub fn warning(reason: &'static str, action: &'static str, text: String) -> Self {
        Self { is_warning: true, reason, action, part: None, text }
    }

    /// Returns a note about a success.
    #[must_use]
    pub fn normal(reason: &'static str, action: &'static str, text: String) -> Self {
        Self { is_warning: false, ..Self::warning(reason, action, text) }
    }

    /// Returns the same note about a part of the object.
    #[must_use]
    pub fn of_part(self, part: String) -> Self {
        Self { part: Some(part), ..self }
    }

    /// Returns the text of the note, cut to the length that an Event accepts.
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
    fn a_long_note_is_cut_between_characters() {
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
