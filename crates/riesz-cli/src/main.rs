//! The `riesz` command.

fn main() {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    std::process::exit(riesz_cli::run(arguments));
}
