//! Topic models: the published recursion against enumerated posteriors, the default against what it promises.

#![allow(clippy::unwrap_used)]

use riesz::data::Rows;
use riesz::distributions::models::lda::{Corpus, LdaMode, LdaOptions, MirrorStep, Particles, TopicModel};
use riesz::distributions::special::{ln_gamma, log_sum_exp};
use riesz::driver::{quietly, Control};
use riesz::model::Stored;
use riesz::random::{uniform_open, Address, BlockIndex, Seed, Stream};
use riesz::Error;

/// Two documents over three words, two topics: 2⁵ assignments.
const DOCUMENTS: [&[usize]; 2] = [&[0, 0, 1], &[1, 2]];
const WORDS: usize = 3;
const TOPICS: usize = 2;
const ALPHA: f64 = 0.4;
const ETA: f64 = 0.3;

fn counts(documents: &[&[usize]]) -> Vec<f64> {
    let mut x = vec![0.0; documents.len() * WORDS];
    for (d, words) in documents.iter().enumerate() {
        words.iter().for_each(|w| x[d * WORDS + w] += 1.0);
    }
    x
}

fn corpus(documents: &[&[usize]]) -> Corpus {
    Corpus::new(Rows::double(&counts(documents), WORDS).unwrap()).unwrap()
}

/// Every assignment of topics to the words of both documents.
fn assignments() -> impl Iterator<Item = Vec<usize>> {
    (0..1 << 5).map(|bits| (0..5).map(|i| bits >> i & 1).collect())
}

/// lB(β) for β by topic and word.
fn log_beta(beta: &[[f64; WORDS]; TOPICS]) -> f64 {
    let one = |row: &[f64; WORDS]| row.iter().map(|&b| ln_gamma(b)).sum::<f64>() - ln_gamma(row.iter().sum());
    beta.iter().map(one).sum()
}

/// log p(z∣α) of one document.
fn log_prior(z: &[usize]) -> f64 {
    let mut n = [0.0; TOPICS];
    let mut sum = 0.0;
    for (i, &k) in z.iter().enumerate() {
        sum += ((n[k] + ALPHA) / (i as f64 + TOPICS as f64 * ALPHA)).ln();
        n[k] += 1.0;
    }
    sum
}

fn counted(z: &[usize]) -> [[f64; WORDS]; TOPICS] {
    let mut n = [[0.0; WORDS]; TOPICS];
    DOCUMENTS.concat().iter().zip(z).for_each(|(&w, &k)| n[k][w] += 1.0);
    n
}

/// log p(z∣α) p(x∣z) up to a constant: the collapsed posterior of the assignments.
fn collapsed(z: &[usize]) -> f64 {
    let mut beta = counted(z);
    beta.iter_mut().flatten().for_each(|b| *b += ETA);
    log_prior(&z[..3]) + log_prior(&z[3..]) + log_beta(&beta)
}

fn normalised(log: &[f64]) -> Vec<f64> {
    let sum = log_sum_exp(log);
    log.iter().map(|l| (l - sum).exp()).collect()
}

/// With every z enumerated and r = 1, one cycle of the weight's recursion with γ_t = 1/t over single documents (D = 2, B = 1) is the
/// collapsed posterior.
#[test]
fn the_weights_of_enumerated_assignments_are_the_collapsed_posterior() {
    let (mut weights, mut truth) = (vec![], vec![]);
    for z in assignments() {
        let (mut beta, mut log_weight) = ([[ETA; WORDS]; TOPICS], 0.0);
        for (t, range) in [0..3, 3..5].into_iter().enumerate() {
            let (gamma, before) = (1.0 / (t as f64 + 1.0), log_beta(&beta));
            beta.iter_mut().flatten().for_each(|b| *b = (1.0 - gamma) * *b + gamma * ETA);
            for i in range.clone() {
                beta[z[i]][DOCUMENTS[t][i - range.start]] += gamma * 2.0;
            }
            log_weight = (1.0 - gamma) * log_weight + gamma * 2.0 * log_prior(&z[range]) + log_beta(&beta)
                - (1.0 - gamma) * before
                - gamma * log_beta(&[[ETA; WORDS]; TOPICS]);
        }
        weights.push(log_weight);
        truth.push(collapsed(&z));
    }
    let gap = normalised(&weights).iter().zip(normalised(&truth)).map(|(a, b)| (a - b).abs()).sum::<f64>();
    assert!(gap < 1e-12, "{gap}");
}

/// Particles that draw left to right, weighted by the closed form, against the enumerated posterior: of the word counts of the
/// topics, which are all a particle keeps.
#[test]
fn weighted_particles_reach_the_enumerated_posterior() {
    const COUNT: usize = 40_000;
    let corpus = corpus(&DOCUMENTS);
    let mut particles = Particles::new(COUNT, WORDS, vec![ALPHA; TOPICS], ETA, Seed(5));
    for t in 0..2_u32 {
        let step = MirrorStep { size: 1.0 / f64::from(t + 1), weight: 2.0 };
        particles.step(&corpus, &[t], step);
    }
    let key =
        |n: &[[f64; WORDS]; TOPICS]| n.as_flattened().iter().map(|v| v.round() as i64).collect::<Vec<_>>();
    let mut truth = std::collections::BTreeMap::new();
    let log: Vec<f64> = assignments().map(|z| collapsed(&z)).collect();
    for (z, p) in assignments().zip(normalised(&log)) {
        *truth.entry(key(&counted(&z))).or_insert(0.0) += p;
    }
    let distance = |weights: &[f64]| {
        let mut found = truth.keys().map(|k| (k.clone(), 0.0)).collect::<std::collections::BTreeMap<_, _>>();
        for (i, weight) in normalised(weights).into_iter().enumerate() {
            let n: [[f64; WORDS]; TOPICS] =
                std::array::from_fn(|k| std::array::from_fn(|w| particles.parameter(i, k, w) - ETA));
            *found.get_mut(&key(&n)).expect("a possible count") += weight;
        }
        0.5 * truth.iter().map(|(k, p)| (found[k] - p).abs()).sum::<f64>()
    };
    // Half of Σ √(p/n) over 30 outcomes is 0.013 for equal weights; theirs are within a factor of a few.
    let with = distance(particles.unnormalised_log_weights());
    assert!(with < 0.02, "total variation {with}");
    // Equal weights, as if the draws were from the posterior, are far off.
    let without = distance(&vec![0.0; COUNT]);
    assert!(without > 3.0 * with, "{without} against {with}");
}

/// Documents of five disjoint topics of eight words each, mixed two by two.
fn planted(documents: usize, words: usize) -> Vec<f64> {
    let mut x = vec![0.0; documents * 40];
    for d in 0..documents {
        let mut draws = Address::new(Seed(3), Stream::Synthetic, BlockIndex(0), d as u32).sequence();
        let mut uniform = || uniform_open(draws.next().unwrap());
        let (first, second) = ((uniform() * 5.0) as usize, (uniform() * 5.0) as usize);
        for _ in 0..words {
            let topic = if uniform() < 0.7 { first } else { second };
            x[d * 40 + topic * 8 + (uniform() * 8.0) as usize] += 1.0;
        }
    }
    x
}

fn fit(options: &LdaOptions, x: &[f64]) -> TopicModel {
    quietly(|control| TopicModel::fit(options, Rows::double(x, 40).unwrap(), control)).unwrap()
}

/// The share of each topic's mass on its best group of eight words.
fn purity(model: &TopicModel) -> Vec<f64> {
    let components = model.components();
    let one = |row: &[f64]| {
        let groups: Vec<f64> = row.chunks(8).map(|group| group.iter().sum()).collect();
        groups.iter().copied().fold(0.0, f64::max) / groups.iter().sum::<f64>()
    };
    components.chunks(40).map(one).collect()
}

#[test]
fn planted_topics_are_found() {
    let x = planted(400, 40);
    let model = fit(&LdaOptions::new(5, Seed(1)), &x);
    assert!(purity(&model).iter().all(|&p| p > 0.95), "{:?}", purity(&model));
    // In a stream, and by particles.
    let options = LdaOptions { batch_size: Some(20), ..LdaOptions::new(5, Seed(1)) };
    let rows = Rows::double(&x, 40).unwrap();
    let mut stream = quietly(|control| TopicModel::begin(&options, rows, control)).unwrap();
    for _ in 0..4 {
        quietly(|control| stream.partial_fit(rows, control)).unwrap();
    }
    assert!(purity(&stream).iter().filter(|&&p| p > 0.9).count() >= 4, "{:?}", purity(&stream));
    // The draws of paper mode are noisy, and its topics blurred: 0.50 was measured, of 0.2 by chance.
    let paper = LdaOptions {
        mode: LdaMode::Paper,
        topic_word_prior: Some(0.01),
        passes: 20,
        particles: 2,
        batch_size: Some(20),
        ..options
    };
    let mean = purity(&fit(&paper, &x)).iter().sum::<f64>() / 5.0;
    assert!(mean > 0.4, "paper mode: {mean}");
}

/// The completion perplexity of documents of one topic each is that of the topic: eight words, and 8 (1 + small).
#[test]
fn completion_reaches_the_entropy_of_the_topics() {
    let x = planted(400, 40);
    let model = fit(&LdaOptions { passes: 20, ..LdaOptions::new(5, Seed(2)) }, &x);
    let one = |word: usize| (0..40).map(|w| f64::from(u8::from(w / 8 == word / 8))).collect::<Vec<f64>>();
    let new: Vec<f64> = [one(0), one(9), one(39)].concat();
    let rows = Rows::double(&new, 40).unwrap();
    let perplexity = model.completion_perplexity(rows, rows).unwrap();
    assert!((7.9..9.5).contains(&perplexity), "{perplexity}");
}

#[test]
fn priors_that_are_given_stay() {
    let x = planted(100, 30);
    let given = LdaOptions {
        doc_topic_prior: Some(vec![0.2, 0.3, 0.4, 0.5, 0.6]),
        topic_word_prior: Some(0.07),
        ..LdaOptions::new(5, Seed(1))
    };
    let summary = fit(&given, &x).summary();
    assert_eq!((summary.doc_topic_prior, summary.topic_word_prior), (vec![0.2, 0.3, 0.4, 0.5, 0.6], 0.07));
    let learnt = fit(&LdaOptions::new(5, Seed(1)), &x).summary();
    assert!(learnt.doc_topic_prior[0] != 0.1 && learnt.topic_word_prior != 0.2);
    let kept = fit(&LdaOptions { learn_priors: false, ..LdaOptions::new(5, Seed(1)) }, &x).summary();
    assert_eq!((kept.doc_topic_prior, kept.topic_word_prior), (vec![0.1; 5], 0.2));
}

/// Threads divide the work, not the result; files hold it all.
#[test]
fn the_same_bits_for_any_number_of_threads_and_from_a_file() {
    let x = planted(300, 20);
    for mode in [LdaMode::Adaptive, LdaMode::Paper] {
        let options = LdaOptions { mode, passes: 4, ..LdaOptions::new(6, Seed(9)) };
        let bytes = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| fit(&options, &x).to_bytes().unwrap())
        };
        let (one, three) = (bytes(1), bytes(3));
        assert_eq!(one, three, "{mode:?}");
        let mut copy = TopicModel::from_bytes(&one).unwrap();
        assert_eq!(copy.to_bytes().unwrap(), one);
        // What is read goes on as what was written.
        let mut model = fit(&options, &x);
        let rows = Rows::double(&x, 40).unwrap();
        for model in [&mut model, &mut copy] {
            quietly(|control| model.partial_fit(rows, control)).unwrap();
        }
        assert_eq!(model.components(), copy.components(), "{mode:?}");
    }
}

#[test]
fn a_fit_can_be_cancelled() {
    let x = planted(300, 20);
    let options = LdaOptions { passes: 1_000, ..LdaOptions::new(5, Seed(1)) };
    let mut left = 10;
    let mut cancelled = || {
        left -= 1;
        left == 0
    };
    let rows = Rows::double(&x, 40).unwrap();
    let outcome = TopicModel::fit(&options, rows, &mut Control::new(&mut cancelled, &mut |_| {}));
    assert!(matches!(outcome, Err(Error::Cancelled { .. })));
}

#[test]
fn bad_counts_and_settings_are_refused_by_name() {
    let message = |options: &LdaOptions, x: &[f64]| {
        let rows = Rows::double(x, 2).unwrap();
        quietly(|control| TopicModel::fit(options, rows, control)).unwrap_err().to_string()
    };
    let options = LdaOptions::new(2, Seed(1));
    let paper = LdaOptions { mode: LdaMode::Paper, ..options.clone() };
    let good = [1.0, 2.0, 0.0, 0.0];
    for (options, x, expected) in [
        (
            options.clone(),
            [1.0, 0.0, -1.0, 0.0],
            "Negative values in data: X contains -1 at row 1, column 0; counts must be zero or more",
        ),
        (options.clone(), [1.0, f64::NAN, 0.0, 0.0], "X contains NaN at row 0, column 1"),
        (
            paper,
            [1.0, 0.0, 0.0, 0.5],
            "X contains 0.5 at row 1, column 1; counts must be whole numbers in paper mode",
        ),
        (LdaOptions::new(0, Seed(1)), good, "n_components = 0 is outside 1, 2, …"),
        (LdaOptions { passes: 0, ..options.clone() }, good, "max_iter = 0 is outside"),
        (
            LdaOptions { learning_decay: 0.2, ..options.clone() },
            good,
            "learning_decay = 0.2 is outside [0.5, 1]",
        ),
        (
            LdaOptions { doc_topic_prior: Some(vec![0.1; 3]), ..options.clone() },
            good,
            "doc_topic_prior has 3 numbers, expected 1 or 2",
        ),
        (
            LdaOptions { topic_word_prior: Some(0.0), ..options.clone() },
            good,
            "topic_word_prior = 0 is outside (0, inf)",
        ),
    ] {
        let found = message(&options, &x);
        assert!(found.starts_with(expected), "{found}");
    }
    let model = quietly(|c| TopicModel::fit(&options, Rows::double(&good, 2).unwrap(), c)).unwrap();
    let wide = [1.0; 3];
    let error = model.transform(Rows::double(&wide, 3).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "expected 2 columns, found 3");
    let (two, one) = (Rows::double(&good, 2).unwrap(), Rows::double(&good[..2], 2).unwrap());
    let error = model.completion_perplexity(two, one).unwrap_err();
    assert_eq!(error.to_string(), "X_held_out has 1 rows, expected 2");
    // An empty document has the proportions of the prior.
    let theta = model.transform(two).unwrap();
    let alpha = model.summary().doc_topic_prior;
    assert!((f64::from(theta[2]) - alpha[0] / (alpha[0] + alpha[1])).abs() < 1e-6);
}

/// A file whose tensors contradict its header is refused.
#[test]
fn hostile_files_are_refused() {
    let model = fit(&LdaOptions::new(3, Seed(1)), &planted(20, 10));
    let container = model.to_container().unwrap();
    let mut other = container.clone();
    other.insert("statistics", vec![40, 3], vec![-1.0_f32; 120]).unwrap();
    assert!(TopicModel::from_container(other).is_err());
    let mut other = container.clone();
    other.insert("statistics", vec![3, 40], vec![1.0_f32; 120]).unwrap();
    assert!(TopicModel::from_container(other).is_err());
    let mut other = container;
    other.header["topics"]["alpha"] = serde_json::json!([1.0, 1.0]);
    assert!(TopicModel::from_container(other).is_err());
}

/// Sweeps over a document are not interrupted: neither a file nor a setting may ask for as many as take for ever, nor for
/// priors that are infinite in single precision, under which no document settles.
#[test]
fn documents_are_not_settled_for_ever() {
    let x = planted(20, 10);
    let rows = Rows::double(&x, 40).unwrap();
    let container = fit(&LdaOptions::new(3, Seed(1)), &x).to_container().unwrap();
    let with = |name: &str, value: serde_json::Value| {
        let mut other = container.clone();
        *other.header["topics"].pointer_mut(name).unwrap() = value;
        TopicModel::from_container(other)
    };
    for (name, value) in [
        ("/options/max_sweeps", serde_json::json!(1_u64 << 53)),
        ("/options/doc_topic_prior", serde_json::json!([1e39])),
        ("/options/topic_word_prior", serde_json::json!(1e300)),
        ("/alpha/1", serde_json::json!(1e39)),
        ("/eta", serde_json::json!(1e300)),
    ] {
        assert!(with(name, value).is_err(), "{name}");
    }
    // As many as there may be, until nothing changes.
    let mut other = container.clone();
    other.header["topics"]["options"]["max_sweeps"] = serde_json::json!(1_000_000);
    other.header["topics"]["options"]["document_tolerance"] = serde_json::json!(1e-300);
    assert!(TopicModel::from_container(other).unwrap().transform(rows).is_ok());
    let options = LdaOptions { max_sweeps: 1_000_001, ..LdaOptions::new(2, Seed(1)) };
    let error = quietly(|control| TopicModel::fit(&options, rows, control)).unwrap_err().to_string();
    assert_eq!(error, "max_doc_update_iter = 1000001 is outside 1, 2, …, 1000000");
}
