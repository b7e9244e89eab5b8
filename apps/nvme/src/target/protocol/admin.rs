//! The commands of an admin queue.

use super::controllers::{Controller, State};
use super::offer::Offer;
use super::session::{Decision, Session, memory_for};
use super::step::{Action, Answer};
use crate::wire::admin::{
    ASYNC_EVENT_CONFIGURATION, DISCOVERY_LOG, Identify, KEEP_ALIVE_TIMER, NUMBER_OF_QUEUES, Request,
};
use crate::wire::discovery::{self, DISCOVERY_NQN, DiscoveryEntry, Family, SubsystemType};
use crate::wire::identify::{self, Namespace, VERSION_1_4, encode_list};
use crate::wire::{
    COMMAND_LEN, Capabilities, Command, Configuration, ControllerStatus, Property, RESPONSE_LEN,
    Status, fabrics,
};
use std::time::Duration;

/// The longest time that a change of CC takes to show in CSTS. Here it shows at once.
const READY_WITHIN_MS: u32 = 500;
/// Entries of an admin queue (Base, 3.3.2.2).
const ADMIN_ENTRIES: u16 = 32;
/// How many commands may wait for an event: AERL is 0, which means one.
const ASYNC_EVENTS: u16 = 1;
/// "Asynchronous event request limit exceeded".
const TOO_MANY_ASYNC_EVENTS: Status = Status::new(1, 0x05);
/// The unit of the keep-alive timeout in 100 ms.
const KEEP_ALIVE_GRANULARITY: u16 = 10;
/// The first bytes of the structure's NSATTR: the namespace is write protected.
const ATTRIBUTES: usize = 99;
/// Log pages that every controller has (Base, 5.16.1). Here nothing is ever logged.
const EMPTY_LOGS: [u8; 4] = [
    0x01, // errors
    0x02, // health
    0x03, // firmware
    0x05, // commands and their effects
];
/// Bit of the command's byte 43: the feature's value survives a reset.
const SAVE: u8 = 0x80;
/// CSTS: the controller has failed.
const FATAL: ControllerStatus = ControllerStatus(2);
/// CC: everything but what [`Configuration::ENABLED`] has, and the request for a shutdown.
const OTHER_SETTINGS: u32 = 0x00ff_3ff0;

impl Session {
    /// The action for a command, which may be a Fabrics command.
    pub(super) fn admin(
        &self,
        controller: &Controller,
        command: &Command,
        request: Option<fabrics::Request>,
    ) -> Decision {
        let offer = &self.controllers.offer;
        let mut state = controller.state();
        match request {
            Some(fabrics::Request::PropertyGet(property)) => {
                Ok(answer(property_value(offer, &state, property)))
            }
            Some(fabrics::Request::PropertySet(Property::Configuration, value)) => {
                state.configure(Configuration(value as u32));
                Ok(answer(0))
            }
            Some(_) => Err(Status::INVALID_FIELD.do_not_retry().into()),
            None if !state.is_ready() => Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry().into()),
            None => self.enabled(controller, &mut state, command),
        }
    }

    fn enabled(&self, controller: &Controller, state: &mut State, command: &Command) -> Decision {
        let offer = &self.controllers.offer;
        match Request::parse(command)? {
            Request::Identify {
                structure,
                namespace,
            } => {
                let bytes = self.identify(controller, structure, namespace)?;
                let to = memory_for(command, bytes.len() as u64)?;
                Ok(Action::Return { bytes, to })
            }
            Request::LogPage { page, offset, len } => {
                if len > offer.limits.max_transfer() {
                    return Err(Status::INVALID_FIELD.do_not_retry().into());
                }
                let to = memory_for(command, len)?;
                let page = log_page(offer, controller.is_discovery, page)?;
                let bytes = part(&page, offset, len as usize);
                Ok(Action::Return { bytes, to })
            }
            Request::SetFeature { .. } if command.bytes()[43] & SAVE != 0 => {
                Err(Status::FEATURE_NOT_SAVEABLE.do_not_retry().into())
            }
            Request::SetFeature { feature, value } => {
                let most = offer.limits.queues;
                state.set_feature(controller.is_discovery, most, feature, value)
            }
            Request::GetFeature { feature } => state.feature(controller.is_discovery, feature),
            Request::AsyncEvent if state.async_events < ASYNC_EVENTS => {
                state.async_events += 1;
                Ok(Action::Hold)
            }
            Request::AsyncEvent => Err(TOO_MANY_ASYNC_EVENTS.do_not_retry().into()),
            Request::KeepAlive => Ok(answer(0)),
            // Bit 0: the command was not aborted.
            Request::Abort => Ok(answer(1)),
        }
    }

    fn identify(
        &self,
        controller: &Controller,
        structure: Identify,
        number: u32,
    ) -> Result<Vec<u8>, Answer> {
        let offer = &self.controllers.offer;
        if structure == Identify::Controller {
            return Ok(describe(offer, controller).encode().into());
        }
        if controller.is_discovery {
            return Err(Status::INVALID_FIELD.do_not_retry().into());
        }
        match structure {
            Identify::Namespace => {
                let (_, shape) = self.namespace(number)?;
                let mut bytes = self.namespace_structure(number)?.encode();
                bytes[ATTRIBUTES] = shape.read_only.into();
                Ok(bytes.into())
            }
            Identify::Descriptors => Ok(self.namespace_structure(number)?.descriptors().into()),
            Identify::ActiveNamespaces => {
                let last = offer.namespaces.len() as u32;
                let numbers = number.saturating_add(1)..=last;
                Ok(encode_list(numbers).into())
            }
            Identify::Controller | Identify::Other(_) => {
                Err(Status::INVALID_FIELD.do_not_retry().into())
            }
        }
    }

    fn namespace_structure(&self, number: u32) -> Result<Namespace, Answer> {
        let (_, shape) = self.namespace(number)?;
        Ok(Namespace {
            blocks: shape.blocks,
            block_shift: shape.block_shift(),
            metadata_len: 0,
            guid: shape.guid,
        })
    }
}

impl State {
    /// Follows CC at once.
    fn configure(&mut self, wanted: Configuration) {
        let fits = (wanted.0 ^ Configuration::ENABLED.0) & OTHER_SETTINGS == 0;
        let enabled = match (wanted.is_enabled(), fits) {
            (false, _) => ControllerStatus::default(),
            (true, true) => ControllerStatus::READY,
            (true, false) => FATAL,
        };
        self.status = match wanted.is_shutdown() {
            true => enabled.and(ControllerStatus::SHUTDOWN_COMPLETE),
            false => enabled,
        };
        if !wanted.is_enabled() {
            self.async_events = 0;
        }
        self.configuration = wanted;
    }

    fn set_feature(&mut self, is_discovery: bool, most: u16, feature: u8, value: u32) -> Decision {
        match feature {
            NUMBER_OF_QUEUES if !is_discovery => {
                let [submission, completion] = [value as u16, (value >> 16) as u16];
                let asked = submission.min(completion);
                if submission.max(completion) == u16::MAX {
                    return Err(Status::INVALID_FIELD.do_not_retry().into());
                }
                self.granted = most.min(asked + 1);
                Ok(answer(self.queues_granted()))
            }
            ASYNC_EVENT_CONFIGURATION => {
                self.async_configuration = value;
                Ok(answer(0))
            }
            KEEP_ALIVE_TIMER => {
                self.keep_alive = Duration::from_millis(value.into());
                Ok(answer(0))
            }
            _ => Err(Status::INVALID_FIELD.do_not_retry().into()),
        }
    }

    fn feature(&self, is_discovery: bool, feature: u8) -> Decision {
        match feature {
            NUMBER_OF_QUEUES if !is_discovery => Ok(answer(self.queues_granted())),
            ASYNC_EVENT_CONFIGURATION => Ok(answer(self.async_configuration.into())),
            KEEP_ALIVE_TIMER => Ok(answer(self.keep_alive.as_millis() as u64)),
            _ => Err(Status::INVALID_FIELD.do_not_retry().into()),
        }
    }

    /// Submission and completion queues, each minus 1.
    fn queues_granted(&self) -> u64 {
        let each = u64::from(self.granted.saturating_sub(1));
        each | each << 16
    }
}

fn answer(result: u64) -> Action {
    Action::Answer(Answer::success(result))
}

fn property_value(offer: &Offer, state: &State, property: Property) -> u64 {
    match property {
        Property::Capabilities => Capabilities::new(offer.limits.entries, READY_WITHIN_MS).0,
        Property::Version => VERSION_1_4.into(),
        Property::Configuration => state.configuration.0.into(),
        Property::Status => state.status.0.into(),
    }
}

/// The identify structure of a controller.
fn describe(offer: &Offer, controller: &Controller) -> identify::Controller {
    let is_discovery = controller.is_discovery;
    let units = |bytes: u32| bytes / 16;
    identify::Controller {
        serial: offer.serial.clone(),
        model: env!("CARGO_PKG_NAME").to_owned(),
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
        id: controller.id,
        version: VERSION_1_4,
        is_discovery,
        max_transfer_shift: offer.limits.max_transfer_shift,
        keep_alive_granularity: KEEP_ALIVE_GRANULARITY,
        max_commands: offer.limits.entries,
        namespaces: match is_discovery {
            true => 0,
            false => offer.namespaces.len() as u32,
        },
        volatile_cache: offer.volatile_cache && !is_discovery,
        keyed_sgl: true,
        in_capsule_sgl: true,
        subsystem: match is_discovery {
            true => DISCOVERY_NQN.to_owned(),
            false => offer.subsystem.to_string(),
        },
        command_capsule_units: units(COMMAND_LEN as u32 + offer.limits.in_capsule_len),
        response_capsule_units: units(RESPONSE_LEN as u32),
        in_capsule_offset_units: 0,
    }
}

/// A log page. Zeros follow it without end.
fn log_page(offer: &Offer, is_discovery: bool, page: u8) -> Result<Vec<u8>, Answer> {
    match page {
        DISCOVERY_LOG if is_discovery => Ok(discovery::encode(0, &[entry(offer)])),
        page if !is_discovery && EMPTY_LOGS.contains(&page) => Ok(Vec::new()),
        _ => Err(Status::INVALID_LOG_PAGE.do_not_retry().into()),
    }
}

/// `len` bytes of a page from `offset` on.
fn part(page: &[u8], offset: u64, len: usize) -> Vec<u8> {
    let begin = usize::try_from(offset)
        .unwrap_or(usize::MAX)
        .min(page.len());
    let mut part: Vec<u8> = page[begin..].iter().copied().take(len).collect();
    part.resize(len, 0);
    part
}

/// The subsystem in the discovery log page.
fn entry(offer: &Offer) -> DiscoveryEntry {
    DiscoveryEntry {
        is_rdma: true,
        family: match offer.address.is_ipv4() {
            true => Family::V4,
            false => Family::V6,
        },
        kind: SubsystemType::Nvm,
        port_id: 1,
        admin_queue_len: ADMIN_ENTRIES,
        service: offer.address.port().to_string(),
        subsystem: offer.subsystem.to_string(),
        address: offer.address.ip().to_string(),
    }
}
