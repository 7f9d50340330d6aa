//! A policy at work without Python: reads a model that `riesz.SBEED.save` wrote, then observations from the standard input, one a
//! line with commas between its numbers, and answers each with the likeliest action.
//!
//! ```text
//! echo "0.1,0.0,0.02,0.0" | cargo run --release --example act -- cartpole.riesz
//! ```

use riesz::dynamics::sbeed::Sbeed;
use riesz::model::Stored;
use std::error::Error;
use std::io::{stdin, BufRead};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: act MODEL < observations.csv")?;
    let agent = Sbeed::load(&PathBuf::from(path))?;
    for line in stdin().lock().lines() {
        let observation =
            line?.split(',').map(|cell| cell.trim().parse()).collect::<Result<Vec<f32>, _>>()?;
        let action: Vec<String> = agent.predict(&observation, None)?.iter().map(f64::to_string).collect();
        println!("{}", action.join(","));
    }
    Ok(())
}
