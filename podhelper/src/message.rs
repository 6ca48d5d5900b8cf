//! Defines the messages between launcher and worker: frames with a length, a letter for the kind, and the body.

use std::io;

use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::{
    bytes::{BufMut, Bytes, BytesMut},
    codec::{Decoder, Encoder, Framed, LengthDelimitedCodec},
};

use crate::command::Command;

/// Largest frame in bytes: a command may have the names of thousands of hosts.
const LARGEST: usize = 4 << 20;
/// Most bytes to read from a stream at once.
pub(crate) const CHUNK: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Launcher: asks whether the worker has the keys.
    Ask,
    /// Worker: confirms that it has them.
    Here,
    /// Launcher: starts this command.
    Run(Command),
    /// Launcher: input of the command.
    Input(Bytes),
    /// Launcher: end of the input.
    InputEnd,
    /// Worker: standard output of the command.
    Output(Bytes),
    /// Worker: standard error of the command.
    Errors(Bytes),
    /// Worker: exit code of the command, as a shell reports it.
    End(u8),
    /// Worker: why the command was not started.
    Refused(String),
}

/// A connection that carries messages.
pub(crate) type Messages<S> = Framed<S, Codec>;

/// Wraps a stream so that it carries messages.
pub(crate) fn frame_messages<S: AsyncRead + AsyncWrite>(stream: S) -> Messages<S> {
    let frames = LengthDelimitedCodec::builder().max_frame_length(LARGEST).new_codec();
    Framed::new(stream, Codec(frames))
}

/// Sends one message and receives one.
pub(crate) async fn request<S>(messages: &mut Messages<S>, message: Message) -> io::Result<Message>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    messages.send(message).await?;
    messages.next().await.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
}

#[derive(Debug)]
pub(crate) struct Codec(LengthDelimitedCodec);

impl Encoder<Message> for Codec {
    type Error = io::Error;

    fn encode(&mut self, message: Message, to: &mut BytesMut) -> io::Result<()> {
        let (kind, body) = match message {
            Message::Ask => (b'a', Bytes::new()),
            Message::Here => (b'h', Bytes::new()),
            Message::Run(command) => (b'r', serde_json::to_vec(&command)?.into()),
            Message::Input(bytes) => (b'i', bytes),
            Message::InputEnd => (b'.', Bytes::new()),
            Message::Output(bytes) => (b'o', bytes),
            Message::Errors(bytes) => (b'e', bytes),
            Message::End(code) => (b'x', vec![code].into()),
            Message::Refused(why) => (b'n', why.into()),
        };
        let mut frame = BytesMut::with_capacity(body.len() + 1);
        frame.put_u8(kind);
        frame.put(body);
        self.0.encode(frame.freeze(), to)
    }
}

impl Decoder for Codec {
    type Item = Message;
    type Error = io::Error;

    fn decode(&mut self, from: &mut BytesMut) -> io::Result<Option<Message>> {
        let Some(frame) = self.0.decode(from)? else { return Ok(None) };
        let frame = frame.freeze();
        let unknown = || io::Error::new(io::ErrorKind::InvalidData, "a message of unknown kind");
        let kind = frame.first().ok_or_else(unknown)?;
        let body = frame.slice(1..);
        Ok(Some(match kind {
            b'a' => Message::Ask,
            b'h' => Message::Here,
            b'r' => Message::Run(decode_command(&body)?),
            b'i' => Message::Input(body),
            b'.' => Message::InputEnd,
            b'o' => Message::Output(body),
            b'e' => Message::Errors(body),
            b'x' => Message::End(*body.first().ok_or_else(unknown)?),
            b'n' => Message::Refused(String::from_utf8_lossy(&body).into_owned()),
            _ => return Err(unknown()),
        }))
    }
}

/// Decodes a command from the network, which [`Command::parse`] has not checked.
fn decode_command(body: &[u8]) -> io::Result<Command> {
    let command: Command = serde_json::from_slice(body)?;
    if command.words.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a command without a program"));
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_decoded_as_encoded_also_in_pieces() {
        let command = Command::parse("PATH=/opt/bin:${PATH:-/bin}; orted -mca 'a b'").unwrap();
        let all = [
            Message::Ask,
            Message::Here,
            Message::Run(command),
            Message::Input(Bytes::from_static(b"in\0put")),
            Message::InputEnd,
            Message::Output(Bytes::from_static(b"\xff")),
            Message::Errors(Bytes::new()),
            Message::End(143),
            Message::Refused("no".to_owned()),
        ];
        let mut codec = Codec(LengthDelimitedCodec::new());
        let mut written = BytesMut::new();
        for message in &all {
            codec.encode(message.clone(), &mut written).unwrap();
        }
        let (mut read, mut so_far) = (Vec::new(), BytesMut::new());
        for byte in written {
            so_far.put_u8(byte);
            read.extend(codec.decode(&mut so_far).unwrap());
        }
        assert_eq!(read, all);
    }

    #[test]
    fn an_invalid_message_is_an_error() {
        for frame in [&b""[..], b"?", b"x", b"r{"] {
            let mut codec = Codec(LengthDelimitedCodec::new());
            let mut written = BytesMut::new();
            codec.0.encode(Bytes::from_static(frame), &mut written).unwrap();
            let kind = codec.decode(&mut written).unwrap_err().kind();
            let is_cut = frame == b"r{";
            let expected =
                if is_cut { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidData };
            assert_eq!(kind, expected, "{frame:?}");
        }
    }

    #[test]
    fn a_command_without_a_program_is_rejected() {
        let mut codec = Codec(LengthDelimitedCodec::new());
        let mut written = BytesMut::new();
        codec.encode(Message::Run(Command::default()), &mut written).unwrap();
        let error = codec.decode(&mut written).unwrap_err();
        assert_eq!(error.to_string(), "a command without a program");
    }
}
