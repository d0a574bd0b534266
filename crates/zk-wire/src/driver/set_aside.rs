//! Connections whose handshakes were set aside: they wait for their grants beside the session's connection.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::stream::Stream;
use crate::proto::take_frame;
use crate::session::{SetAside, SetAsideUse};
use crate::shared::Shared;

/// Waits for the reply of the server, and uses the session that it grants or closes it.
pub(super) async fn wait(shared: Arc<Shared>, mut stream: Stream, set_aside: SetAside) {
    let SetAside {
        connection,
        mut received,
        ..
    } = set_aside;
    let longest = shared.lock().session.longest_handshake();
    let answer = tokio::time::timeout(longest, answer(&mut stream, &mut received)).await;
    let is_answered = matches!(answer, Ok(Ok(())));
    if let Some((mut stream, close)) =
        use_answer(&shared, connection, is_answered, stream, received)
    {
        let closed = close_session(&mut stream, &close);
        // Without a reply, the session stays until its timeout.
        drop(tokio::time::timeout(LONGEST_CLOSE, closed).await);
    }
}

/// Reports the answer to the session. Returns the connection if it is to be closed, and what closes it.
fn use_answer(
    shared: &Shared,
    connection: u64,
    is_answered: bool,
    stream: Stream,
    received: BytesMut,
) -> Option<(Stream, Bytes)> {
    let now = shared.now();
    let mut inner = shared.lock();
    if !is_answered {
        inner.session.set_aside_lost(connection);
        return None;
    }
    let close = match inner.session.set_aside_answered(connection, received, now) {
        SetAsideUse::Serve => {
            inner.granted = Some((connection, stream));
            None
        }
        SetAsideUse::Close(close) => Some((stream, close)),
        SetAsideUse::Drop => None,
    };
    drop(inner);
    shared.wake_driver.notify_one();
    close
}

/// Reads a frame, and perhaps what follows it.
async fn answer(stream: &mut Stream, received: &mut BytesMut) -> io::Result<()> {
    while take_frame(&mut received.clone(), LONGEST_ANSWER)
        .map_err(io::Error::other)?
        .is_none()
    {
        if poll_fn(|cx| stream.poll_read(cx, received)).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

async fn close_session(stream: &mut Stream, mut close: &[u8]) -> io::Result<()> {
    while !close.is_empty() {
        stream.writable().await?;
        match stream.try_write(&[IoSlice::new(close)]) {
            Ok(written) => close = &close[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    let mut reply = BytesMut::new();
    while poll_fn(|cx| stream.poll_read(cx, &mut reply)).await? > 0 {
        reply.clear();
    }
    Ok(())
}

/// The reply to a handshake is much shorter.
const LONGEST_ANSWER: usize = 64 << 10;
const LONGEST_CLOSE: Duration = Duration::from_secs(10);
