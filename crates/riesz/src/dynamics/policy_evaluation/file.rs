//! An evaluated policy as a file.

use super::options::Functions;
use super::solve::Stream;
use super::value::ValueFunction;
use super::{Header, PolicyEvaluation, Remark};
use crate::error::{in_range, Error, Result};
use crate::model::{Container, Stored};
use crate::space::{Basis, FeatureExpansion, Linear, Network, Storable};

impl Stored for PolicyEvaluation {
    const KIND: &'static str = "policy_evaluation";

    fn store(&self, container: &mut Container) -> Result<()> {
        let mut header = self.header.clone();
        header.options.max_time = None;
        container.set_field("policy_evaluation", &header)?;
        container.insert("replicates", vec![self.replicates.len()], self.replicates.clone())?;
        let f = match &self.f {
            None => return Ok(()),
            Some(ValueFunction::Growing(f)) => return f.store(container, "f"),
            Some(ValueFunction::Network(f)) => return f.store(container, "f"),
            Some(ValueFunction::Linear(f)) => f,
        };
        let m = f.basis().len();
        f.basis().store(container, "basis")?;
        container.insert("coefficients", vec![m], f.coefficients().to_vec())?;
        container.insert("influences", vec![self.influences.len() / m, m], self.influences.clone())?;
        self.stream.as_ref().map_or(Ok(()), |stream| stream.store(container))
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let header: Header = container.field("policy_evaluation")?;
        header.options.check()?;
        let d = header.state_columns;
        in_range("columns", d as f64, (1..=1 << 20).contains(&d), "[1, 2^20]")?;
        let count = container.f64s("replicates")?.1.len();
        let replicates = container.take_f64s("replicates", &[count])?;
        let mut evaluation = Self { header, f: None, influences: Vec::new(), replicates, stream: None };
        if evaluation.header.options.method.has_function() {
            let f = match evaluation.header.options.features {
                Functions::Growing => ValueFunction::Growing(FeatureExpansion::restore(container, "f")?),
                Functions::Network => ValueFunction::Network(Network::restore(container, "f")?),
                _ => ValueFunction::Linear(evaluation.restore_linear(container)?),
            };
            let wanted = evaluation.header.arguments.columns(d);
            if (f.as_function().columns(), f.as_function().outputs()) != (wanted, 1) {
                return Err(Error::Format("the value function does not fit its arguments".into()));
            }
            evaluation.f = Some(f);
        }
        let Header { options, estimate, .. } = &evaluation.header;
        let wanted = options.method.needs_episodes();
        if estimate.is_some() != wanted || evaluation.replicates.is_empty() == wanted {
            return Err(Error::Format("an estimate from episodes is missing, or of another method".into()));
        }
        evaluation.check_improved()?;
        evaluation.header.remarks.iter().try_for_each(Remark::check)?;
        Ok(evaluation)
    }
}

impl PolicyEvaluation {
    fn restore_linear(&mut self, container: &mut Container) -> Result<Linear> {
        let m = container.f64s("coefficients")?.1.len();
        let coefficients = container.take_f64s("coefficients", &[m])?;
        let groups = container.f64s("influences")?.1.len() / m.max(1);
        self.influences = container.take_f64s("influences", &[groups, m])?;
        let basis = Basis::restore(container, "basis")?;
        if basis.len() != m {
            return Err(Error::Format("the value function does not fit its basis".into()));
        }
        if container.header.get("stream").is_some() {
            self.stream = Some(Stream::restore(container, m)?);
        }
        Linear::with_coefficients(basis, coefficients)
    }
}
