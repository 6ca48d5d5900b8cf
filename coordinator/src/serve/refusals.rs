//! Shortens the message of every gRPC error, and escapes control characters. A gRPC client rejects an answer whose
//! headers exceed 16 KiB, and would report the coordinator as unreachable.

use tonic::Status;
use tonic::codegen::http::Response;
use tower::util::MapResponseLayer;

/// The tower layer, for servers whose answers have bodies of type `B`.
pub(super) type Refusals<B> = MapResponseLayer<fn(Response<B>) -> Response<B>>;

pub(super) fn bounded_refusals<B>() -> Refusals<B> {
    MapResponseLayer::new(bounded)
}

/// Returns the response with a message of at most [`causes::MESSAGE`] bytes without control characters.
fn bounded<B>(mut response: Response<B>) -> Response<B> {
    let Some(status) = Status::from_header_map(response.headers()) else { return response };
    let message = causes::message(status.message());
    if message != status.message() {
        // `add_header` fails only for a message that is not a valid header value; the escaped message is a valid one.
        let _ = Status::new(status.code(), message).add_header(response.headers_mut());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_and_message(message: String) -> (tonic::Code, String) {
        let response = bounded(Status::invalid_argument(message).into_http::<()>());
        let bytes: usize = response.headers().values().map(|value| value.len()).sum();
        assert!(bytes < 14 << 10, "{bytes} bytes of headers");
        let status = Status::from_header_map(response.headers()).unwrap();
        (status.code(), status.message().to_owned())
    }

    #[test]
    fn the_message_of_a_refusal_is_shortened_and_escaped_and_its_code_is_kept() {
        let (code, message) = code_and_message("ü\u{1b}[2J\u{9b}".repeat(1 << 20));
        assert_eq!(code, tonic::Code::InvalidArgument);
        assert!(message.starts_with("ü\\u{1b}[2J"), "{message}");
        assert!(message.len() <= causes::MESSAGE && !message.contains(char::is_control));
        assert_eq!(code_and_message("as it is".to_owned()).1, "as it is");
        assert_eq!(
            bounded(Response::new(())).headers().len(),
            0,
            "an answer without an error is not changed"
        );
    }
}
