//! What the tests of the command share: a folder of their own, data files, and the command itself.
#![allow(dead_code)]

use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Seed, Stream};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder that goes away with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("riesz-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The command, in this folder.
    pub fn riesz(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_riesz"));
        command.args(arguments.split_whitespace()).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    /// Runs the command to its end.
    pub fn run(&self, arguments: &str) -> Output {
        self.riesz(arguments).output().unwrap()
    }

    /// Runs the command, which must succeed; returns what it printed.
    pub fn succeed(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        assert!(
            output.status.success(),
            "riesz {arguments}\n{}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Runs the command, which must fail with this code; returns its message.
    pub fn fail(&self, arguments: &str, code: i32) -> String {
        let output = self.run(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "riesz {arguments}\n{message}");
        assert!(message.starts_with("error: "), "{message}");
        message
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        read(&self.path(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Three classes in three columns: rings around the origin.
pub fn rings(rows: usize, seed: u64) -> String {
    table(rows, seed, |x, _| {
        ["inner", "middle", "outer"][(x.iter().map(|v| v * v).sum::<f64>() * 1.5) as usize % 3].into()
    })
}

/// A smooth function of three columns, with noise.
pub fn quantity(rows: usize, seed: u64) -> String {
    table(rows, seed, |x, noise| format!("{:.6}", 100.0 + (3.0 * x[0]).sin() + x[1] * x[2] + 0.1 * noise))
}

fn table(rows: usize, seed: u64, answer: impl Fn(&[f64], f64) -> String) -> String {
    let mut text = "width,height,depth,answer\n".to_owned();
    for i in 0..rows {
        let address = Address::new(Seed(seed), Stream::Synthetic, BlockIndex(0), i as u32);
        let [a, b, c, _] = address.words(0);
        let [e, f, ..] = address.words(1);
        let x = [a, b, c].map(|word| 2.0 * uniform_open(word) - 1.0);
        writeln!(text, "{:.5},{:.5},{:.5},{}", x[0], x[1], x[2], answer(&x, normal_pair(e, f)[0])).unwrap();
    }
    text
}
