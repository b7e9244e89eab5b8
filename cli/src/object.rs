//! JSON objects that are built member by member.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// An object. Its members keep their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Object(Vec<(&'static str, Member)>);

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub(crate) enum Member {
    Value(Value),
    Object(Object),
}

impl Object {
    pub(crate) fn add(&mut self, name: &'static str, member: impl Into<Member>) {
        self.0.push((name, member.into()));
    }

    pub(crate) fn with(mut self, name: &'static str, member: impl Into<Member>) -> Self {
        self.add(name, member);
        self
    }

    /// Adds all members to those of an object that is being written.
    pub(crate) fn serialize_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let mut members = self.0.iter();
        members.try_for_each(|(name, member)| map.serialize_entry(name, member))
    }

    /// Leaves the member out if it is `None`.
    pub(crate) fn with_some(self, name: &'static str, member: Option<impl Into<Member>>) -> Self {
        match member {
            Some(member) => self.with(name, member),
            None => self,
        }
    }
}

impl<T: Into<Value>> From<T> for Member {
    fn from(value: T) -> Self {
        Self::Value(value.into())
    }
}

impl From<Object> for Member {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.serialize_into(&mut map)?;
        map.end()
    }
}

/// A number as text: many readers of JSON keep fewer than 64 bits.
pub(crate) fn hex64(number: u64) -> String {
    format!("{number:#018x}")
}
