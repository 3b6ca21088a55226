//! Decisions about stops, and about words that sound urgent.

use super::*;

pub(super) fn stopped(recipient: Recipient) -> Recipient {
    Recipient { stopped: true, ..recipient }
}

#[test]
fn a_role_is_asked_once_whatever_the_words() {
    let declared = |intent, event| Event { intent: Some(intent), ..event };
    let emergency = classify(naming(person("@backend emergency: the disk is full")));
    assert_eq!(decide(&emergency, &in_role()).priority, Priority::Urgent);
    decides! {
        "no word makes more of a role than one offer":
            naming(person("@backend stop the deploy")), Recipient { offered_to_other: true, ..in_role() }
            => to_my_role may_respond (tool_mailbox) role_mention;
        "nor does an emergency":
            naming(person("@backend emergency: the disk is full")), Recipient { offered_to_other: true, ..in_role() }
            => to_my_role may_respond (tool_mailbox) role_mention;
        "the one is asked as always":
            naming(person("@backend emergency: the disk is full")), in_role()
            => to_my_role may_respond (notify) role_mention;
        "a declared one too":
            declared(Intent::Safety, naming(person("@backend the disk is full"))), in_role()
            => to_my_role may_respond (notify) role_mention;
        "a stop reaches whoever works":
            naming(person("@backend stop")), stopped(in_role())
            => to_me ack_only (immediate) cancellation;
    }
}

#[test]
fn only_stops_with_authority_and_declared_safety_interrupt() {
    decides! {
        "a stop": in_dm(person("stop")), stopped(nobody()) => to_me ack_only (immediate) cancellation;
        "a stop that stops nothing is a message":
            in_thread(person("stop")), participant()
            => to_my_role may_respond (notify) thread_participation;
        "and is answered by who was asked":
            in_thread(person("stop")), asked()
            => to_me must_respond (buffered) thread_question;
        "a stop in a thread": in_thread(person("stop")), stopped(participant()) => to_me ack_only (immediate) cancellation;
        "an agent's stop": in_thread(agent("stop")), stopped(participant()) => to_me ack_only (immediate) cancellation;
        "a declared stop":
            Event { intent: Some(Intent::Cancellation), ..naming(person("@bob that is all")) }, stopped(named())
            => to_me ack_only (immediate) cancellation;
        "one that stops nothing": in_dm(person("stop")), nobody() => to_me must_respond (buffered) direct_message;
        "nor declared":
            Event { intent: Some(Intent::Cancellation), ..naming(agent("@bob hello")) }, named()
            => to_me must_respond (buffered) direct_mention;
        "what sounds urgent is only urgent":
            in_dm(agent("Security incident: keys are public")), nobody()
            => to_me must_respond (immediate) direct_message;
        "safety is declared":
            Event { intent: Some(Intent::Safety), ..in_dm(person("keys are public")) }, nobody()
            => to_me must_respond (immediate) safety;
        "and not by any agent":
            Event { intent: Some(Intent::Safety), ..in_dm(agent("keys are public")) }, nobody()
            => to_me must_respond (immediate) direct_message;
        "but by one that leads":
            Event { intent: Some(Intent::Safety), author_leads: true, ..in_dm(agent("keys are public")) }, nobody()
            => to_me must_respond (immediate) safety;
    }
}
