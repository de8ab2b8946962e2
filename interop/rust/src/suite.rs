//! A named list of scenarios; runs them one after the other and prints one line for each.

use crate::LIBRARY;
use crate::check::{Failure, Outcome};
use crate::lab::Lab;
use crate::node::Node;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(60);

type Steps = Box<dyn Fn(Arc<Lab>) -> Pin<Box<dyn Future<Output = Outcome> + Send>>>;

#[derive(Default)]
pub struct Suite {
    scenarios: Vec<(&'static str, Steps)>,
}

impl Suite {
    pub fn add<F>(&mut self, id: &'static str, steps: impl Fn(Arc<Lab>) -> F + 'static)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.scenarios.push((id, Box::new(move |lab| Box::pin(steps(lab)))));
    }

    /// Runs the scenarios named in `wanted`, or all; returns how many failed.
    pub async fn run(&self, wanted: &[String]) -> Result<usize, String> {
        if let Some(unknown) =
            wanted.iter().find(|id| !self.scenarios.iter().any(|(known, _)| known == id))
        {
            return Err(format!("unknown scenario {unknown}"));
        }
        let node = Arc::new(Node::open().await.map_err(|failure| format!("{failure:?}"))?);
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        for (id, steps) in &self.scenarios {
            if !wanted.is_empty() && !wanted.iter().any(|want| want == id) {
                continue;
            }
            let started = Instant::now();
            match run_one(&node, id, steps).await {
                Ok(()) => {
                    passed += 1;
                    println!("PASS {LIBRARY} {id} ({} ms)", started.elapsed().as_millis());
                }
                Err(Failure::Skipped(reason)) => {
                    skipped += 1;
                    println!("SKIP {LIBRARY} {id}: {reason}");
                }
                Err(Failure::Failed(reason)) => {
                    failed += 1;
                    println!("FAIL {LIBRARY} {id}: {reason}");
                }
            }
            if !node.running().await {
                println!("# the node died in {id}; its last lines:\n{}", node.tail());
                node.start().await.map_err(|failure| format!("{failure:?}"))?;
            }
        }
        node.kill9().await.map_err(|failure| format!("{failure:?}"))?;
        println!("{passed} passed, {failed} failed, {skipped} skipped");
        Ok(failed)
    }
}

/// Runs the steps in a task of their own, so that a panic is a failure like any other.
async fn run_one(node: &Arc<Node>, id: &str, steps: &Steps) -> Outcome {
    let lab = Lab::new(Arc::clone(node), id);
    let mut task = tokio::spawn(steps(Arc::clone(&lab)));
    let outcome = match timeout(LIMIT, &mut task).await {
        Ok(joined) => joined.unwrap_or_else(|panic| Err(Failure::Failed(panic.to_string()))),
        Err(_) => {
            task.abort();
            Err(Failure::Failed(format!("no end after {} s", LIMIT.as_secs())))
        }
    };
    lab.clean_up().await;
    outcome
}
