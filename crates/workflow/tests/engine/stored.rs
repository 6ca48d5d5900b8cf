//! An object as a site stores it. Copies share it, and it is decoded once: most sites are short-lived copies of others.

use std::{
    any::Any,
    cell::OnceCell,
    fmt,
    ops::{Deref, DerefMut},
    rc::Rc,
};

use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Clone)]
pub(crate) struct Stored(Rc<Shared>);

struct Shared {
    value: Value,
    decoded: OnceCell<Box<dyn Any>>,
}

impl Stored {
    /// Decodes the object as its kind.
    pub(crate) fn decode<K: DeserializeOwned + Clone + 'static>(
        &self,
    ) -> Result<K, serde_json::Error> {
        let decoded = self.0.decoded.get().and_then(|decoded| decoded.downcast_ref::<K>());
        if let Some(decoded) = decoded {
            return Ok(decoded.clone());
        }
        let decoded = K::deserialize(&self.0.value)?;
        // An object has one kind, so no other type is asked for later.
        let _ = self.0.decoded.set(Box::new(decoded.clone()));
        Ok(decoded)
    }
}

impl From<Value> for Stored {
    fn from(value: Value) -> Self {
        Self(Rc::new(Shared { value, decoded: OnceCell::new() }))
    }
}

impl Deref for Stored {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0.value
    }
}

impl DerefMut for Stored {
    fn deref_mut(&mut self) -> &mut Value {
        if Rc::get_mut(&mut self.0).is_none() {
            *self = self.0.value.clone().into();
        }
        let shared = Rc::get_mut(&mut self.0).unwrap();
        shared.decoded.take();
        &mut shared.value
    }
}

impl PartialEq for Stored {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.value, f)
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.value, f)
    }
}
