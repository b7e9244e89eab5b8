//! Faults of an open device's completions and regions.

use crate::strike::die;
use crate::{CompletionFate, CompletionFaults, FaultyCompletions};
use crate::{CompletionFault, Judge, Target};
use parking_lot::Mutex;
use roce_stack::{Completion, Nic};
use roce_wire::Qpn;
use std::collections::HashMap;
use std::sync::Arc;

/// The injections for one open device.
#[derive(Clone, Debug)]
pub struct DeviceFaults {
    judge: Arc<Judge>,
    /// For each QP of the device, its place in the order in which the process created QPs.
    numbers: Arc<Mutex<HashMap<Qpn, u32>>>,
}

impl DeviceFaults {
    /// Applies the judge to the completions of `nic`, if it has injections about completions.
    pub fn begin(judge: Arc<Judge>, nic: &mut Nic) -> Self {
        let new = Self {
            judge,
            numbers: Arc::default(),
        };
        if new.judge.has(|what| matches!(what, Target::Completion(..))) {
            nic.intercept_completions(Box::new(FaultyCompletions::new(new.clone())));
        }
        new
    }

    /// Called for each new QP of the device, before it has completions.
    pub fn note_new_qp(&self, qpn: Qpn) {
        self.numbers.lock().insert(qpn, self.judge.number_qp());
    }

    /// Called for each registered region. Returns whether its memory must vanish.
    pub fn strikes_region(&self) -> bool {
        let strikes = self
            .judge
            .strike(|injection| matches!(injection.what, Target::Region).then_some(()));
        strikes.is_some()
    }
}

impl CompletionFaults for DeviceFaults {
    fn judge(&mut self, completion: &Completion) -> CompletionFate {
        let number = self.numbers.lock().get(&completion.qpn).copied();
        let fault = self.judge.strike(|injection| match injection.what {
            Target::Completion(of, fault)
                if of.includes(completion.opcode)
                    && (injection.qp.is_none() || injection.qp == number) =>
            {
                Some(fault)
            }
            _ => None,
        });
        match fault {
            None => CompletionFate::Deliver,
            Some(CompletionFault::Status(status)) => CompletionFate::Fail(status),
            Some(CompletionFault::Late(time)) => CompletionFate::Delay(time),
            Some(CompletionFault::Lost) => CompletionFate::Lose,
            Some(CompletionFault::Overrun) => CompletionFate::Overrun,
            Some(CompletionFault::Die) => die(),
        }
    }
}
