"""Runs real CrewAI crews with a canned model, dumps their events and results, and says what truly happened.

Usage: run_crewai.py FOLDER. Writes NAME.json and NAME.expect into it.
"""

import json
import os
import sys
from pathlib import Path

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}

from crewai import LLM, Agent, BaseLLM, Crew, Process, Task  # noqa: E402
from crewai.events import BaseEventListener, crewai_event_bus  # noqa: E402
from crewai.events.base_events import BaseEvent  # noqa: E402
from crewai.flow.flow import Flow, listen, router, start  # noqa: E402
from crewai.tools import tool  # noqa: E402
from pydantic import BaseModel  # noqa: E402

FOLDER = Path(sys.argv[1])
KEY = "sk-canned-this-must-never-appear"


class Canned(BaseLLM):
    """Says one thing after the other, whatever it is asked."""

    def __init__(self, *answers):
        super().__init__(model="canned", api_key=KEY)
        self._answers = iter(answers)

    def call(self, messages, tools=None, callbacks=None, available_functions=None, **_):
        return next(self._answers)

    def supports_function_calling(self):
        return False

    def supports_stop_words(self):
        return False


@tool("lookup_order")
def lookup_order(order_id: str) -> str:
    """Look up an order."""
    return "delivered"


class Findings(BaseModel):
    text: str
    citations: list[str]


class Review(BaseModel):
    verdict: str
    objections: list[str]


def agent(role, *answers, **more):
    return Agent(role=role, goal="do it", backstory="b", llm=Canned(*answers), **more)


def action(name, **arguments):
    return f"Thought: next\nAction: {name}\nAction Input: {json.dumps(arguments)}"


def final(text):
    return f"Thought: done\nFinal Answer: {text}"


def descendants(kind):
    for child in kind.__subclasses__():
        yield child
        yield from descendants(child)


class Dump(BaseEventListener):
    def __init__(self):
        self.events = []
        super().__init__()

    def setup_listeners(self, bus):
        for kind in set(descendants(BaseEvent)):
            bus.on(kind)(lambda _, event: self.events.append(event.to_json()))


def run(name, crew, expected, result=None):
    with crewai_event_bus.scoped_handlers():
        dump = Dump()
        output = crew.kickoff()
        if hasattr(crewai_event_bus, "flush"):
            crewai_event_bus.flush()
        # Handlers run beside each other.
        events = sorted(dump.events, key=lambda event: event.get("emission_sequence") or 0)
    write(name, events, expected)
    if result is not None:
        write(f"{name}-result", output.model_dump(serialize_as_any=True), result)


def write(name, value, expected):
    (FOLDER / f"{name}.json").write_text(json.dumps(value, default=str))
    (FOLDER / f"{name}.expect").write_text(json.dumps(expected))


def tools():
    lead = agent(
        "Lead",
        action("lookup_order", order_id="R-1"),
        action("Delegate work to coworker", task="decide", context="c", coworker="Clerk"),
        final("Rejected, blocked: only words."),
        tools=[lookup_order],
        allow_delegation=True,
    )
    clerk = agent("Clerk", final("Do it."))
    task = Task(description="answer", expected_output="text", agent=lead)
    run("tools", Crew(agents=[lead, clerk], tasks=[task], process=Process.sequential), {"tool_call": 1, "escalation": 1}, {})


def hierarchy():
    """The manager delegates, which is an escalation, and asks, which is not."""
    manager = Canned(
        action("Delegate work to coworker", task="decide", context="c", coworker="Clerk"),
        action("Ask question to coworker", question="why?", context="c", coworker="Clerk"),
        final("Rejected, blocked: only words."),
    )
    clerk = agent("Clerk", final("Do it."), final("Because."))
    task = Task(description="answer", expected_output="text")
    crew = Crew(agents=[clerk], tasks=[task], process=Process.hierarchical, manager_llm=manager)
    run("hierarchy", crew, {"escalation": 1, "tool_call": 1}, {})


def flow():
    """A flow's methods name sources and escalate in words; what the crew in it does counts."""
    class Refund(Flow):
        @start()
        def retrieve(self):
            return {"citations": ["https://a", "https://b"]}

        @router(retrieve)
        def policy_guard(self):
            return "blocked"

        @listen("blocked")
        def escalate_to_human(self):
            reviewer = agent("Reviewer", action("lookup_order", order_id="1"), final("fine"), tools=[lookup_order])
            return Crew(agents=[reviewer], tasks=[Task(description="r", expected_output="t", agent=reviewer)]).kickoff().raw

    run("flow", Refund(), {"tool_call": 1})


def guardrail():
    answers = iter([(False, "Blocked: a promise"), (True, "ok")])
    support = agent("Support", final("We promise."), final("We look at it."))

    def promises(_):
        """Reject promises."""
        return next(answers)

    task = Task(description="reply", expected_output="text", agent=support, guardrail=promises)
    run("guardrail", Crew(agents=[support], tasks=[task]), {"warning": 1}, {})


def review():
    found = json.dumps({"text": "t", "citations": ["https://a", "https://b"]})
    judged = json.dumps({"verdict": "rejected", "objections": ["no date"]})
    researcher, reviewer = agent("Researcher", final(found)), agent("Fact Reviewer", final(judged))
    tasks = [
        Task(description="research", expected_output="json", agent=researcher, output_pydantic=Findings),
        Task(description="look at it", expected_output="json", agent=reviewer, output_pydantic=Review),
    ]
    happened = {"evidence_cited": 2, "dissent": 1}
    run("review", Crew(agents=[researcher, reviewer], tasks=tasks), happened, happened)


def secrets():
    """What a dump gives away must not be given on."""
    written = json.dumps(Agent(role="R", goal="g", backstory="b", llm=LLM(model="gpt-4o", api_key=KEY)).model_dump(), default=str)
    print("an agent's dump holds its key" if KEY in written else "an agent's dump no longer holds its key")


tools()
hierarchy()
flow()
guardrail()
review()
secrets()
