//! `riesz evaluate-policy`: values, intervals, files, and what it says when something is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{text, Folder};
use riesz::random::{normal_pair, Address, BlockIndex, Seed, Stream};
use std::fmt::Write;

/// Episodes of x' = 0.8x + 0.3e with reward x and γ = 0.9, cut after ten steps: V(x) = x/(1 − 0.72).
fn walk(episodes: u64) -> String {
    let mut text = "x,next_x,reward,terminal,truncation,note\n".to_owned();
    for episode in 0..episodes {
        let normal = |t: u32| {
            let words = Address::new(Seed(3), Stream::Synthetic, BlockIndex(episode), t).words(0);
            normal_pair(words[0], words[1])[0]
        };
        let mut x = 1.0 + 0.5 * normal(99);
        for t in 0..10 {
            let next = 0.8 * x + 0.3 * normal(t);
            writeln!(text, "{x},{next},{x},0,{},7", u8::from(t == 9)).unwrap();
            x = next;
        }
    }
    text
}

/// The value at the start is E x/0.28 with E x = 1, and the interval holds it; V of every row is x/0.28.
#[test]
fn a_walk_has_its_value() {
    let folder = Folder::new("evaluate");
    folder.write("walk.csv", &walk(400));
    for method in ["dual_embedding", "lstd", "fitted_q"] {
        let output = folder.run(&format!(
            "evaluate-policy walk.csv --discount 0.9 --method {method} --out v.csv --model v.riesz --quiet"
        ));
        let printed = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("not used: note"), "{}", text(&output.stderr));
        assert!(printed.contains("4,000 in 400 episodes"), "{printed}");
        let line = printed.lines().find(|line| line.trim_start().starts_with("value")).unwrap();
        let numbers: Vec<f64> =
            line.split([' ', '(', ',', ')']).filter_map(|word| word.parse().ok()).collect();
        let (value, low, high) = (numbers[0], numbers[1], numbers[2]);
        // The mean of x over 400 starts deviates by 0.025, so the value by 0.09: five deviations.
        assert!((value - 1.0 / 0.28).abs() < 0.45, "{line}");
        assert!(low < value && value < high && high - low < 1.0, "{line}");
        let written = text(&folder.bytes("v.csv"));
        let rows: Vec<f64> =
            written.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
        let states: Vec<f64> =
            walk(400).lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
        assert_eq!(rows.len(), states.len());
        let error: f64 = rows.iter().zip(&states).map(|(v, x)| (v - x / 0.28).powi(2)).sum::<f64>();
        assert!((error / rows.len() as f64).sqrt() < 0.3, "{method}: {error}");
        assert!(folder.path("v.riesz").is_file());
    }
}

/// Gymnasium's names of flags are known, what the value is a mean of is said, and so is what a method leaves out.
#[test]
fn what_was_done_is_said() {
    let folder = Folder::new("evaluate-said");
    let text_of = walk(40).replace("terminal,truncation", "terminated,truncated");
    folder.write("walk.csv", &text_of);
    let output = folder.run("evaluate-policy walk.csv --discount 0.9 --quiet");
    let printed = text(&output.stdout);
    assert!(printed.contains("400 in 40 episodes"), "{printed}");
    assert!(printed.contains("the states that episodes begin with"), "{printed}");
    assert!(!text(&output.stderr).contains("warning"), "{}", text(&output.stderr));
    let output = folder.run("evaluate-policy walk.csv --discount 0.9 --method per_decision --quiet");
    assert!(text(&output.stderr).contains("warning: 40 of 40 episodes were cut short"));
    let steps = "evaluate-policy walk.csv --discount 0.9 --method embedding_sgd --quiet";
    assert!(text(&folder.run(steps).stderr).contains("Raise n_passes"));
    assert!(!text(&folder.run(&format!("{steps} --passes 2000")).stderr).contains("Raise n_passes"));
    folder.write("open.csv", &text_of.replace(",1,7", ",0,7"));
    let output = folder.run("evaluate-policy open.csv --discount 0.9 --quiet");
    assert!(text(&output.stdout).contains("all logged states"), "{}", text(&output.stdout));
}

#[test]
fn what_is_wrong_is_named() {
    let folder = Folder::new("evaluate-wrong");
    folder.write("walk.csv", &walk(5).replace(",note", "").replace(",7\n", "\n"));
    folder.write("bare.csv", "1,2,3,0\n2,3,4,0\n");
    folder.write("no-next.csv", "x,reward,terminal\n1,2,0\n2,3,0\n");
    folder.write("no-reward.csv", "x,next_x,terminal\n1,2,0\n2,3,0\n");
    folder.write("flags.csv", "x,next_x,reward,terminal\n1,2,1,0\n2,3,1,0.5\n");
    let fail = |arguments: &str| folder.fail(&format!("evaluate-policy {arguments} --quiet"), 2);
    assert!(fail("bare.csv").contains("have no names"));
    assert!(fail("no-next.csv").contains("next_x"));
    assert!(fail("no-reward.csv").contains("no column \"reward\""));
    assert!(fail("flags.csv").contains("0.5 in row 1"));
    assert!(fail("walk.csv --discount 1").contains("discount = 1"));
    assert!(fail("walk.csv --discount 2").contains("discount = 2"));
    assert!(fail("walk.csv --method magic").contains("dual_embedding"));
    assert!(fail("walk.csv --features magic").contains("atoms"));
    assert!(fail("walk.csv --confidence 1").contains("confidence"));
    assert!(fail("walk.csv --method per_decision --out v.csv").contains("one number"));
}
