//! Lines of the standard input, read by a thread of its own: waiting for the next one must not keep a signal waiting.

use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

/// Most lines handed over together, and most such hands.
const TOGETHER: usize = 256;
const WAITING: usize = 8;
/// Longest time between two looks for signals.
const PATIENCE: Duration = Duration::from_millis(50);

/// What came of waiting.
pub(super) enum Next {
    /// Some lines, with their ends.
    Lines(Vec<Vec<u8>>),
    /// None for a moment.
    Nothing,
    /// There are no more.
    End,
    /// They could not be read.
    Failed(std::io::Error),
}

pub(super) struct Lines {
    hands: Receiver<std::io::Result<Vec<Vec<u8>>>>,
    stop: Arc<AtomicBool>,
}

impl Lines {
    /// Begins to read.
    pub(super) fn of(input: impl Read + Send + 'static) -> Self {
        let (sender, hands) = sync_channel(WAITING);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut input = BufReader::new(input);
            while !stopped.load(Ordering::Relaxed) || input.buffer().contains(&b'\n') {
                let hand = some_lines(&mut input);
                let last = !matches!(&hand, Ok(lines) if !lines.is_empty());
                if sender.send(hand).is_err() || last {
                    break;
                }
            }
        });
        Self { hands, stop }
    }

    /// Waits for a moment.
    pub(super) fn next(&self) -> Next {
        match self.hands.recv_timeout(PATIENCE) {
            Ok(Ok(lines)) if lines.is_empty() => Next::End,
            Ok(Ok(lines)) => Next::Lines(lines),
            Ok(Err(error)) => Next::Failed(error),
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    /// From here on nothing more is read; lines that have been are still to come.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The next line, and those behind it that have come too; none at the end.
fn some_lines(input: &mut impl ReadAhead) -> std::io::Result<Vec<Vec<u8>>> {
    let mut lines = Vec::new();
    while lines.len() < TOGETHER && (lines.is_empty() || input.has_line()) {
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        lines.push(line);
    }
    Ok(lines)
}

/// A reader that knows what it has read ahead.
trait ReadAhead: BufRead {
    /// Whether the end of a line has come already.
    fn has_line(&self) -> bool;
}

impl<R: Read> ReadAhead for BufReader<R> {
    fn has_line(&self) -> bool {
        self.buffer().contains(&b'\n')
    }
}
