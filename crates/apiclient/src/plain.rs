//! Short texts of failed requests for log lines: kube's own errors print whole objects and repeat their causes.

use std::error::Error;

use kube::Error as ApiError;

/// Returns the message, code and reason of the API's answer, or the reason why the API did not answer.
#[must_use]
pub fn plain(error: &ApiError) -> String {
    match error {
        ApiError::Api(status) => {
            format!("{} ({} {})", status.message, status.code, status.reason)
        }
        ApiError::Service(cause) => innermost(&**cause).to_string(),
        ApiError::ReadEvents(cause) => format!("the connection broke: {}", innermost(cause)),
        _ => error.to_string(),
    }
}

/// Returns whether the API refuses the request because of its content, so that a retry of the same request is useless.
/// Possible causes are an admission policy that fails, an older CRD during an upgrade, or an invalid name.
#[must_use]
pub fn is_refusal(error: &ApiError) -> bool {
    matches!(error, ApiError::Api(status) if matches!(status.code, 400 | 413 | 415 | 422))
}

/// Returns the innermost cause of an error: each layer of a transport repeats the text of the layer beneath it.
#[must_use]
pub fn innermost<'a>(mut error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    while let Some(cause) = error.source() {
        error = cause;
    }
    error
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn the_text_of_a_refusal_is_its_message() {
        let status = Status {
            code: 403,
            message: "no".to_owned(),
            reason: "Forbidden".to_owned(),
            ..Status::default()
        };
        let error = ApiError::Api(Box::new(status));
        assert_eq!(plain(&error), "no (403 Forbidden)");
    }

    #[test]
    fn the_text_of_a_missing_answer_is_its_innermost_cause() {
        let lost = std::io::Error::other(std::io::Error::from_raw_os_error(110));
        let error = ApiError::ReadEvents(lost);
        assert_eq!(plain(&error), "the connection broke: Connection timed out (os error 110)");
        let refused = std::io::Error::from_raw_os_error(111);
        let error = ApiError::Service(Box::new(refused));
        assert_eq!(plain(&error), "Connection refused (os error 111)");
    }
}
