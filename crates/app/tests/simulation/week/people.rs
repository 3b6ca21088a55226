//! The actions of people in the week: they post, edit and delete messages, and do not always get the response.

use super::story::{Happening, Story};
use crate::hub::body;
use chorus_app::conversation::{delete, edit, say};
use chorus_node::idempotency::Once;
use chorus_protocol::api::messages::EditResult;
use chorus_protocol::ids::EventId;
use serde_json::json;

/// A person's action in a channel.
#[derive(Debug, Clone)]
pub(crate) struct Saying {
    pub(crate) person: usize,
    pub(crate) channel: usize,
    pub(crate) act: Act,
    /// The resulting event, if the response arrived.
    pub(crate) done: Option<EventId>,
}

#[derive(Debug, Clone)]
pub(crate) enum Act {
    Say(String),
    /// A message in the thread of the channel's last message.
    GoOn(String),
    /// An edit of the action with this number.
    Edit(usize, String),
    TakeBack(usize),
}

impl Story {
    /// Schedules a few messages in one channel, and the faults during them.
    pub(super) fn set_scene(&mut self, time: i64) {
        let channel = self.world.below(self.channels.len() as i64) as usize;
        let mut at = time;
        for _ in 0..=self.world.below(3) {
            let n = self.sayings.len();
            let person = self.channels[channel].people[self.world.below(2) as usize];
            let act = self.think_of(n, channel, person);
            self.sayings.push(Saying { person, channel, act, done: None });
            self.world.after(at, Happening::Says(n));
            at += 500 + self.world.below(20_000);
        }
        if self.world.chance(35) {
            let crashes = time + self.world.below(40_000);
            self.world.after(crashes, Happening::HubCrashes);
        }
        for agent in self.channels[channel].agents.clone() {
            if self.world.chance(20) {
                let crashes = (time - 10_000 + self.world.below(60_000)).max(0);
                self.world.after(crashes, Happening::AgentCrashes(agent));
            }
        }
    }

    fn think_of(&mut self, n: usize, channel: usize, person: usize) -> Act {
        let place = &self.channels[channel];
        let count = place.agents.len();
        let first = self.world.below(count as i64) as usize;
        let names = [first, (first + 1) % count].map(|one| self.agents[place.agents[one]].name.clone());
        let own = |saying: &&Saying| saying.channel == channel && saying.person == person;
        let earlier =
            self.sayings.iter().rposition(|saying| own(&saying) && matches!(saying.act, Act::Say(_)));
        match (self.world.below(14), earlier) {
            (0..=2, _) => Act::Say(format!("@{}, can you look at {n}?", names[0])),
            (3, _) => Act::Say(format!("@{} and @{}, please do {n}", names[0], names[1])),
            (4..=6, _) => Act::Say(format!("@ops, who takes {n}?")),
            (7, _) => Act::Say(format!("@{} thanks for {n}", names[0])),
            (8, _) => Act::Say(format!("the weather of {n} is fine")),
            (9 | 10, _) => Act::GoOn(format!("and what about {n}?")),
            (11 | 12, Some(which)) => Act::Edit(which, format!("@{}, rather look at {n}?", names[0])),
            (13, Some(which)) => Act::TakeBack(which),
            _ => Act::Say(format!("@{}, {n} is broken, please fix it", names[0])),
        }
    }

    pub(super) fn say(&mut self, n: usize) {
        let Saying { person, channel, act, done } = self.sayings[n].clone();
        if done.is_some() {
            return;
        }
        if !self.host.is_up() || self.goes_wrong(10) {
            return self.soon(500, 5000, Happening::Says(n));
        }
        let (who, place, key) =
            (self.people[person].id.into(), self.channels[channel].id, format!("saying-{n}"));
        let target = |which: usize| self.sayings[which].done;
        let before =
            self.sayings.iter().filter(|one| one.channel == channel).filter_map(|one| one.done).next_back();
        let said = match &act {
            Act::Say(text) | Act::GoOn(text) => {
                let thread = before.filter(|_| matches!(act, Act::GoOn(_))).map(|event| event.to_string());
                let new = body(json!({"content": text, "thread": thread}));
                self.host.run(async |app| {
                    let once = Once::new(app, "api", &who, "say", Some(&key), text.as_bytes());
                    say(app, who, place, new, once).await.map(|said| Some(said.result.event_id))
                })
            }
            Act::Edit(which, text) => match target(*which) {
                None => Ok(None),
                Some(target) => self.host.run(async |app| {
                    let once = Once::new(app, "api", &who, "edit", Some(&key), text.as_bytes());
                    let new = body(json!({"content": text}));
                    edit(app, who, (place, target), new, once).await.map(|edited| match edited.result {
                        EditResult::Changed(noted) => Some(noted.event_id),
                        EditResult::Held(_) => None,
                    })
                }),
            },
            Act::TakeBack(which) => match target(*which) {
                None => Ok(None),
                Some(target) => self.host.run(async |app| {
                    let once = Once::new(app, "api", &who, "delete", Some(&key), b"");
                    delete(app, who, (place, target), once).await.map(|_| None)
                }),
            },
        };
        let outcome = said.as_ref().map_err(|error| error.code);
        self.world.note(format_args!("person{person} in channel{channel}: {act:?}: {outcome:?}"));
        // A deleted message can be neither edited nor continued.
        let said = match said {
            Ok(said) => said,
            Err(error) if matches!(act, Act::Say(_)) => panic!("{error:?}"),
            Err(_) => return,
        };
        if self.goes_wrong(15) {
            // The author did not get the response.
            return self.soon(500, 2000, Happening::Says(n));
        }
        self.sayings[n].done = said;
    }
}
