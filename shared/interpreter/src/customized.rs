//! The chain of rules: scripts of customizations first, then the rules that come with the program.
//!
//! The first layer with a rule for the exact kind and operation answers; an error there is the answer. A script that
//! hangs or fails costs only the objects of its kind.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Value, json};
use shared::time::UnixSeconds;

use crate::customization::{Customization, function_of};
use crate::lua::limits::{STRIKES, TRY_AGAIN_EVERY};
use crate::lua::{Clock, Empties, Runtime, ScriptError};
use crate::scripted;
use crate::{
    Component, Dependency, InterpretError, Interpreter, Kind, MemberItem, Native, Operation, Replicas,
};

/// One script in use.
#[derive(Debug)]
struct Script {
    customization: String,
    text: Arc<str>,
    /// How often in a row it was stopped.
    strikes: AtomicU32,
    /// How often it was not run because of that.
    passed_over: AtomicU32,
}

impl Script {
    fn new(customization: &str, text: &Arc<str>) -> Arc<Self> {
        Arc::new(Self {
            customization: customization.to_owned(),
            text: text.clone(),
            strikes: AtomicU32::new(0),
            passed_over: AtomicU32::new(0),
        })
    }

    fn is_given_up(&self) -> bool {
        self.strikes.load(Ordering::Relaxed) >= STRIKES
            && !(self.passed_over.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(TRY_AGAIN_EVERY)
    }

    fn note(&self, answer: &Result<[Value; 2], ScriptError>) {
        match answer {
            Err(error) if error.was_stopped() => {
                self.strikes.fetch_add(1, Ordering::Relaxed);
            }
            // Says nothing about this script.
            Err(ScriptError::Busy) => {}
            _ => self.strikes.store(0, Ordering::Relaxed),
        }
    }
}

/// Scripts by kind and operation. More than one only for dependencies.
type Book = HashMap<(String, String), HashMap<Operation, Vec<Arc<Script>>>>;

/// The rules that come with the program, and scripts of customizations before them.
#[derive(Debug)]
pub struct Customized {
    base: Native,
    runtime: Runtime,
    book: RwLock<(Vec<Customization>, Arc<Book>)>,
}

impl Customized {
    /// Without customizations. `clock` is what scripts see as the time.
    #[must_use]
    pub fn new(base: Native, clock: Clock) -> Self {
        Self {
            base,
            runtime: Runtime::new(clock),
            book: RwLock::default(),
        }
    }

    /// Takes exactly these customizations from now on; their order does not matter. Answers whether anything changed.
    pub fn replace(&self, mut customizations: Vec<Customization>) -> bool {
        customizations.sort_by(|a, b| a.name.cmp(&b.name));
        let mut known = self.book.write().unwrap_or_else(PoisonError::into_inner);
        if known.0 == customizations {
            return false;
        }
        let mut book = Book::new();
        for customization in &customizations {
            let kind = (customization.api_version.clone(), customization.kind.clone());
            let scripts = book.entry(kind).or_default();
            for (operation, text) in &customization.scripts {
                let slot = scripts.entry(*operation).or_default();
                // The first by name has it; dependencies are united.
                if slot.is_empty() || *operation == Operation::InterpretDependency {
                    slot.push(Script::new(&customization.name, text));
                }
            }
        }
        *known = (customizations, Arc::new(book));
        true
    }

    /// The customizations in use, by name.
    #[must_use]
    pub fn customizations(&self) -> Vec<Customization> {
        let known = self.book.read().unwrap_or_else(PoisonError::into_inner);
        known.0.clone()
    }

    /// Names of the customizations whose script answers for a kind and an operation.
    #[must_use]
    pub fn answered_by(&self, kind: &Kind<'_>, operation: Operation) -> Vec<String> {
        self.scripts(kind, operation)
            .iter()
            .map(|script| script.customization.clone())
            .collect()
    }

    fn scripts(&self, kind: &Kind<'_>, operation: Operation) -> Vec<Arc<Script>> {
        let book = {
            let known = self.book.read().unwrap_or_else(PoisonError::into_inner);
            known.1.clone()
        };
        book.get(&(kind.api_version.to_owned(), kind.kind.to_owned()))
            .and_then(|scripts| scripts.get(&operation))
            .cloned()
            .unwrap_or_default()
    }

    /// Asks the script of the object's kind; `None`: there is none.
    fn ask<T>(
        &self,
        object: &Value,
        operation: Operation,
        question: Question,
        read: impl FnOnce([Value; 2]) -> Result<T, String>,
    ) -> Result<Option<T>, InterpretError> {
        let kind = Kind::of(object)?;
        let Some(script) = self.scripts(&kind, operation).into_iter().next() else {
            return Ok(None);
        };
        self.run(&script, operation, question, read).map(Some)
    }

    fn run<T>(
        &self,
        script: &Script,
        operation: Operation,
        question: Question,
        read: impl FnOnce([Value; 2]) -> Result<T, String>,
    ) -> Result<T, InterpretError> {
        let failed = |cause: ScriptError| InterpretError::Script {
            customization: script.customization.clone(),
            operation,
            cause,
        };
        let given_up = script.strikes.load(Ordering::Relaxed) >= STRIKES;
        if script.is_given_up() {
            return Err(failed(ScriptError::GivenUp));
        }
        let Question {
            arguments,
            empties,
            now,
        } = question;
        let answer = self
            .runtime
            .call(&script.text, function_of(operation), arguments, empties, now);
        script.note(&answer);
        let answer = answer.map_err(|cause| {
            // Tried again in vain: nothing new to tell.
            let known = given_up && cause.was_stopped();
            failed(if known { ScriptError::GivenUp } else { cause })
        })?;
        read(answer).map_err(|what| failed(ScriptError::Result(what)))
    }
}

/// What a script is asked.
struct Question {
    arguments: Vec<Value>,
    empties: Empties,
    now: Option<UnixSeconds>,
}

impl Question {
    fn new(arguments: Vec<Value>, empties: Empties) -> Self {
        Self {
            arguments,
            empties,
            now: None,
        }
    }
}

impl Interpreter for Customized {
    fn supports(&self, kind: &Kind<'_>, operation: Operation) -> bool {
        !self.scripts(kind, operation).is_empty() || self.base.supports(kind, operation)
    }

    fn get_replicas(&self, template: &Value) -> Result<Replicas, InterpretError> {
        let question = Question::new(vec![template.clone()], Empties::Dropped);
        let asked = self.ask(
            template,
            Operation::InterpretReplica,
            question,
            scripted::replicas,
        )?;
        asked.map_or_else(|| self.base.get_replicas(template), Ok)
    }

    fn get_components(&self, template: &Value) -> Result<Vec<Component>, InterpretError> {
        let question = Question::new(vec![template.clone()], Empties::Dropped);
        let asked = self.ask(template, Operation::InterpretComponent, question, |[list, _]| {
            scripted::components(list)
        })?;
        asked.map_or_else(|| self.base.get_components(template), Ok)
    }

    fn revise_replica(&self, template: &Value, replicas: i64) -> Result<Value, InterpretError> {
        let question = Question::new(vec![template.clone(), replicas.into()], Empties::AsGiven);
        let asked = self.ask(template, Operation::ReviseReplica, question, |[object, _]| {
            scripted::object(object)
        })?;
        asked.map_or_else(|| self.base.revise_replica(template, replicas), Ok)
    }

    fn retain(&self, desired: &Value, observed: &Value) -> Result<Value, InterpretError> {
        let question = Question::new(vec![desired.clone(), observed.clone()], Empties::AsGiven);
        let asked = self.ask(desired, Operation::Retain, question, |[object, _]| {
            scripted::object(object)
        })?;
        asked.map_or_else(|| self.base.retain(desired, observed), Ok)
    }

    fn reflect_status(&self, object: &Value) -> Result<Option<Value>, InterpretError> {
        let question = Question::new(vec![object.clone()], Empties::Dropped);
        let asked = self.ask(object, Operation::InterpretStatus, question, |[status, _]| {
            scripted::status(status)
        })?;
        asked.map_or_else(|| self.base.reflect_status(object), |status| Ok(Some(status)))
    }

    fn interpret_health(&self, object: &Value) -> Result<bool, InterpretError> {
        let question = Question::new(vec![object.clone()], Empties::Dropped);
        let asked = self.ask(object, Operation::InterpretHealth, question, |[health, _]| {
            health
                .as_bool()
                .ok_or_else(|| "a health that is neither true nor false".to_owned())
        })?;
        asked.map_or_else(|| self.base.interpret_health(object), Ok)
    }

    fn aggregate_status(
        &self,
        template: &Value,
        items: Option<&[MemberItem]>,
        now: &str,
    ) -> Result<Option<Value>, InterpretError> {
        let question = Question {
            arguments: vec![template.clone(), scripted::items(items)],
            empties: Empties::Dropped,
            now: UnixSeconds::parse_rfc3339(now),
        };
        let asked = self.ask(template, Operation::AggregateStatus, question, |[object, _]| {
            scripted::object(object).map(|object| object.get("status").cloned())
        })?;
        asked.map_or_else(|| self.base.aggregate_status(template, items, now), Ok)
    }

    fn get_dependencies(&self, template: &Value) -> Result<Vec<Dependency>, InterpretError> {
        let kind = Kind::of(template)?;
        let scripts = self.scripts(&kind, Operation::InterpretDependency);
        if scripts.is_empty() {
            return self.base.get_dependencies(template);
        }
        let mut all = Vec::new();
        for script in scripts {
            let question = Question::new(vec![template.clone()], Empties::Dropped);
            all.extend(
                self.run(&script, Operation::InterpretDependency, question, |[list, _]| {
                    scripted::dependencies(list)
                })?,
            );
        }
        scripted::sort(&mut all);
        Ok(all)
    }
}

/// The part of a question about items that scripts see.
pub(crate) fn item(item: &MemberItem) -> Value {
    match &item.status {
        Some(status) => json!({"clusterName": item.cluster, "applied": true, "status": status}),
        None => json!({"clusterName": item.cluster, "applied": false}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health_by(script: &str) -> Customization {
        Customization {
            name: "c".to_owned(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            scripts: [(Operation::InterpretHealth, Arc::from(script))].into(),
        }
    }

    fn cause(answer: Result<bool, InterpretError>) -> Option<ScriptError> {
        match answer {
            Err(InterpretError::Script { cause, .. }) => Some(cause),
            _ => None,
        }
    }

    #[test]
    fn a_script_that_is_stopped_again_and_again_is_given_up_until_it_changes() {
        let chain = Customized::new(Native::default(), Arc::new(|| UnixSeconds(0)));
        let pod = json!({"apiVersion": "v1", "kind": "Pod"});
        assert!(chain.replace(vec![health_by(
            "function InterpretHealth() while true do end end"
        )]));
        for _ in 0..STRIKES {
            let stopped = cause(chain.interpret_health(&pod)).expect("an error");
            assert!(stopped.was_stopped(), "{stopped}");
        }
        for _ in 0..2 * TRY_AGAIN_EVERY {
            assert_eq!(cause(chain.interpret_health(&pod)), Some(ScriptError::GivenUp));
        }
        assert!(!chain.replace(chain.customizations()), "nothing changed");
        assert!(chain.replace(vec![health_by("function InterpretHealth() return true end")]));
        assert_eq!(chain.interpret_health(&pod), Ok(true));
        assert!(chain.replace(Vec::new()));
        assert_eq!(chain.interpret_health(&pod), Ok(false), "the built-in rule again");
    }

    #[test]
    fn dependencies_of_several_are_united_and_sorted() {
        let needing = |name: &str, secret: &str| {
            Customization {
            name: name.to_owned(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            scripts: [(
                Operation::InterpretDependency,
                Arc::from(format!(
                    "function GetDependencies(o) return {{{{apiVersion='v1', kind='Secret', namespace='n', name='{secret}'}},
                     {{apiVersion='v1', kind='ConfigMap', namespace='n', name='both'}}}} end"
                )),
            )]
            .into(),
        }
        };
        let chain = Customized::new(Native::default(), Arc::new(|| UnixSeconds(0)));
        chain.replace(vec![needing("b", "x"), needing("a", "y")]);
        let kind = Kind {
            api_version: "v1",
            kind: "Pod",
        };
        assert_eq!(
            chain.answered_by(&kind, Operation::InterpretDependency),
            ["a", "b"]
        );
        let found = chain
            .get_dependencies(&json!({"apiVersion": "v1", "kind": "Pod"}))
            .expect("an answer");
        let names: Vec<_> = found.iter().filter_map(|one| one.name.as_deref()).collect();
        assert_eq!(names, ["both", "x", "y"]);
    }
}
