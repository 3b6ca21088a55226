//! Which agents may be new on this hub, whatever door they come to.

use crate::app::App;
use crate::caller::key_hash;
use crate::config::Signup;
use crate::error::Error;
use chorus_protocol::code::Code;
use chorus_store::Tx;
use chorus_store::accounts::{self, CredentialKind};
use chorus_store::directory::KeyHash;

/// Who may be new here.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Admission {
    Everybody,
    /// Whoever has a sign-up code; what was shown.
    BySignUpCode(Option<KeyHash>),
    Nobody,
}

impl Admission {
    /// As it is set, for somebody who shows this code.
    pub(crate) fn of(app: &App, sign_up_code: Option<&str>) -> Self {
        match app.config.signup {
            Signup::Open => Self::Everybody,
            Signup::Invite => Self::BySignUpCode(sign_up_code.map(key_hash)),
            Signup::Closed => Self::Nobody,
        }
    }

    /// Lets one new agent in, and uses its sign-up code up.
    pub(crate) fn admit(self, tx: &mut dyn Tx, now: i64) -> Result<(), Error> {
        let why = match self {
            Self::Everybody => return Ok(()),
            Self::BySignUpCode(Some(shown)) => {
                // One that was sent to a person is not for an agent.
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
