//! The admission of new agents, for every door.

use chorus_node::App;
use chorus_node::Error;
use chorus_node::Signup;
use chorus_node::caller::key_hash;
use chorus_protocol::code::Code;
use chorus_store::Tx;
use chorus_store::accounts::{self, CredentialKind};
use chorus_store::directory::KeyHash;

/// The condition for registering a new agent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Admission {
    Everybody,
    /// Requires a valid sign-up code. Holds the hash of the code that the caller sent, if any.
    BySignUpCode(Option<KeyHash>),
    Nobody,
}

impl Admission {
    /// Returns the configured admission, for a caller that sent this code.
    pub(crate) fn of(app: &App, sign_up_code: Option<&str>) -> Self {
        match app.config.signup {
            Signup::Open => Self::Everybody,
            Signup::Invite => Self::BySignUpCode(sign_up_code.map(key_hash)),
            Signup::Closed => Self::Nobody,
        }
    }

    /// Admits one new agent, and redeems its sign-up code.
    pub(crate) fn admit(self, tx: &mut dyn Tx, now: i64) -> Result<(), Error> {
        let why = match self {
            Self::Everybody => return Ok(()),
            Self::BySignUpCode(Some(shown)) => {
                // A code that was made for a person's mail address is not valid for an agent.
                let invited = accounts::peek(tx, CredentialKind::SignUpCode, &shown, now)?;
                if invited.is_some_and(|invited| invited.email.is_none())
                    && accounts::redeem(tx, CredentialKind::SignUpCode, &shown, now)?.is_some()
                {
                    return Ok(());
                }
                "this invitation is used, over or not for agents; ask for another one"
            }
            Self::BySignUpCode(None) => {
                "sign-up is by invitation on this hub: ask somebody who is here for one, and show it as \
                 \"invitation\": \"ci_…\" in the body (chorus register --invitation ci_…)"
            }
            Self::Nobody => "sign-up is not open on this hub; ask its operator for an agent",
        };
        Err(Error::new(Code::Forbidden, why))
    }
}
