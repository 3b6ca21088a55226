//! The meaning of event types, in CrewAI's own words and in those of the protocol document.

/// The meaning of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    ToolStarted,
    ToolEnded,
    DelegationStarted,
    DelegationEnded,
    HumanAsked,
    HumanAnswered,
    /// A flow or its method paused for a person.
    Paused,
    Guard {
        /// Set if the type itself reports a problem.
        says_so: bool,
    },
    TaskCompleted,
    /// A method of a flow returned.
    MethodEnded,
    /// An agent received sources.
    Knowledge,
    ModelEnded,
    /// A crew or flow began, ended or failed.
    RunStarted,
    RunEnded,
    RunFailed,
    KickoffCompleted,
    Review,
    /// A failure that is not an event.
    Failure,
    /// Internal work of the framework.
    Nothing,
    Unknown,
}

/// Normalises a type: `ToolUsageStartedEvent` becomes `tool_usage_started`.
pub(super) fn snake(name: &str) -> String {
    let mut snake = String::new();
    let signs: Vec<char> = name.chars().take(200).collect();
    for (index, sign) in signs.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| signs[before]);
        let after = signs.get(index + 1).is_some_and(|after| after.is_lowercase());
        let begins =
            before.is_some_and(char::is_lowercase) || (before.is_some_and(char::is_uppercase) && after);
        if (sign.is_uppercase() && begins) || !sign.is_alphanumeric() {
            snake.push('_');
        }
        if sign.is_alphanumeric() {
            snake.extend(sign.to_lowercase());
        }
    }
    snake.strip_suffix("_event").map(str::to_owned).unwrap_or(snake)
}

/// The prefixes of events about the framework's internal work.
const AT_WORK: [&str; 25] = [
    "crew_",
    "task_",
    "agent_",
    "lite_agent_",
    "llm_call",
    "llm_stream",
    "llm_thinking",
    "flow_",
    "method_execution",
    "conversation_",
    "memory_",
    "knowledge_",
    "mcp_",
    "a2a_",
    "skill_",
    "plan_",
    "step_",
    "goal_",
    "checkpoint_",
    "observation",
    "file_",
    "env_",
    "cc_",
    "context_window_",
    "hook_",
];

/// Returns the meaning of an event type in snake case.
pub(super) fn kind_of(kind: &str) -> Kind {
    let words: Vec<_> = kind.split('_').collect();
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    let ends = ["finished", "completed", "error", "failed", "ended", "received", "answered"];
    match kind {
        "tool_call" | "tool_use" | "tool_execution" | "tool_usage" => return Kind::ToolStarted,
        "tool_selection_error"
        | "tool_validate_input_error"
        | "tool_failure_detected"
        | "llm_guardrail_failed" => return Kind::Failure,
        // These report a start, an environment, or a suspended and resumed process.
        "llm_guardrail_started" | "default_env" | "cursor_env" | "codex_env" | "sigtstp" | "sigcont" => {
            return Kind::Nothing;
        }
        "task_completed" => return Kind::TaskCompleted,
        "method_execution_finished" => return Kind::MethodEnded,
        "flow_input_requested" => return Kind::HumanAsked,
        "flow_input_received" => return Kind::HumanAnswered,
        "method_execution_paused" | "flow_paused" => return Kind::Paused,
        "knowledge_search_query_completed" | "knowledge_retrieval_completed" => return Kind::Knowledge,
        "llm_call_completed" => return Kind::ModelEnded,
        "crew_kickoff_started" | "flow_started" => return Kind::RunStarted,
        "crew_kickoff_completed" => return Kind::KickoffCompleted,
        "flow_finished" => return Kind::RunEnded,
        "crew_kickoff_failed" | "flow_failed" | "sigterm" | "sigint" | "sighup" => return Kind::RunFailed,
        _ => {}
    }
    let tool = ["tool_call", "tool_use", "tool_usage", "tool_execution", "mcp_tool_execution"]
        .iter()
        .any(|beginning| kind.starts_with(&format!("{beginning}_")));
    let human = words.contains(&"hitl")
        || (words.contains(&"human")
            && has(&[
                "feedback",
                "input",
                "loop",
                "review",
                "approval",
                "request",
                "requested",
                "intervention",
            ]));
    let delegation =
        has(&["delegation", "delegated", "delegate", "handoff", "allocation", "escalation", "escalated"])
            || kind.contains("hand_off");
    if tool {
        if has(&ends) { Kind::ToolEnded } else { Kind::ToolStarted }
    } else if human {
        if has(&ends) || has(&["response", "processed"]) { Kind::HumanAnswered } else { Kind::HumanAsked }
    } else if delegation {
        if has(&ends) { Kind::DelegationEnded } else { Kind::DelegationStarted }
    } else if has(&[
        "guardrail",
        "guardrails",
        "safety",
        "refusal",
        "refused",
        "blocked",
        "unsafe",
        "policy",
        "moderation",
    ]) {
        if words.last() == Some(&"started") {
            return Kind::Nothing;
        }
        Kind::Guard { says_so: has(&["refusal", "refused", "blocked", "unsafe", "violation", "violated"]) }
    } else if words.iter().any(|word| word.starts_with("critic") || word.starts_with("review")) {
        Kind::Review
    } else if AT_WORK.iter().any(|family| kind.starts_with(family)) {
        if has(&["failed", "error"]) { Kind::Failure } else { Kind::Nothing }
    } else {
        Kind::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_in_every_spelling() {
        for (name, kind) in [
            ("tool_usage_started", Kind::ToolStarted),
            ("ToolUsageStartedEvent", Kind::ToolStarted),
            ("tool_usage_finished", Kind::ToolEnded),
            ("tool_usage_error", Kind::ToolEnded),
            ("mcp_tool_execution_failed", Kind::ToolEnded),
            ("MCPToolExecutionStartedEvent", Kind::ToolStarted),
            ("tool_call", Kind::ToolStarted),
            ("tool_selection_error", Kind::Failure),
            ("a2a_delegation_started", Kind::DelegationStarted),
            ("a2a_delegation_completed", Kind::DelegationEnded),
            ("a2a_conversation_started", Kind::Nothing),
            ("manager_allocation", Kind::DelegationStarted),
            ("human_feedback_requested", Kind::HumanAsked),
            ("human_feedback_received", Kind::HumanAnswered),
            ("human-in-the-loop", Kind::HumanAsked),
            ("llm_guardrail_started", Kind::Nothing),
            ("llm_guardrail_completed", Kind::Guard { says_so: false }),
            ("safety_blocked", Kind::Guard { says_so: true }),
            ("refusal", Kind::Guard { says_so: true }),
            ("policy_check", Kind::Guard { says_so: false }),
            ("task_completed", Kind::TaskCompleted),
            ("task_failed", Kind::Failure),
            ("crew_kickoff_started", Kind::RunStarted),
            ("CrewKickoffCompletedEvent", Kind::KickoffCompleted),
            ("flow_finished", Kind::RunEnded),
            ("flow_failed", Kind::RunFailed),
            ("SIGTERM", Kind::RunFailed),
            ("SIGHUP", Kind::RunFailed),
            ("default_env", Kind::Nothing),
            ("hook_dispatched", Kind::Nothing),
            ("context_window_summarization_failed", Kind::Failure),
            ("tool_failure_detected", Kind::Failure),
            ("flow_input_requested", Kind::HumanAsked),
            ("FlowInputReceivedEvent", Kind::HumanAnswered),
            ("method_execution_paused", Kind::Paused),
            ("flow_paused", Kind::Paused),
            ("method_execution_started", Kind::Nothing),
            ("MethodExecutionFinishedEvent", Kind::MethodEnded),
            ("knowledge_search_query_completed", Kind::Knowledge),
            ("KnowledgeRetrievalCompletedEvent", Kind::Knowledge),
            ("knowledge_query_started", Kind::Nothing),
            ("llm_call_completed", Kind::ModelEnded),
            ("reviewer_decision", Kind::Review),
            ("something_else", Kind::Unknown),
        ] {
            assert_eq!(kind_of(&snake(name)), kind, "{name}");
        }
    }
}
