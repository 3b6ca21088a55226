"""Runs a real LangGraph ensemble with a canned model in every stream mode, and says what truly happened.

Usage: run_langgraph.py FOLDER. Writes NAME.json and NAME.expect into it.
"""

import asyncio
import json
import operator
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send, interrupt
from langgraph_sdk.schema import StreamPart

FOLDER = Path(sys.argv[1])
ALL = {"tool_call": 1, "evidence_cited": 2, "warning": 1, "dissent": 1, "escalation": 1}


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    documents: list
    flagged: bool
    verdict: str
    objection: str
    escalation: Any
    final: str


class Canned(BaseChatModel):
    """Asks for one tool, whatever it is asked."""

    @property
    def _llm_type(self):
        return "canned"

    def _generate(self, messages, stop=None, run_manager=None, **_):
        calls = [{"name": "lookup_order", "args": {"order_id": "R-1"}, "id": "call_1"}]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content="", tool_calls=calls))])


@tool
def lookup_order(order_id: str) -> str:
    """Look up an order."""
    return "delivered"


def ensemble(**settings):
    graph = StateGraph(State)
    graph.add_node("triage", lambda state: {"messages": [Canned().invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([lookup_order]))
    graph.add_node("retriever", lambda _: {"documents": [
        Document(page_content="Above 250 a person decides.", metadata={"source": "kb/policy.md"}, id="d1"),
        Document(page_content="Within 14 days.", metadata={"source": "kb/returns.md"}, id="d2"),
    ]})
    graph.add_node("policy_guard", lambda _: {"flagged": True})
    graph.add_node("critic", lambda _: {"verdict": "rejected", "objection": "nobody approved it"})
    graph.add_node("escalate_to_human", lambda _: {"escalation": {"to": "desk", "reason": "too much"}})
    graph.add_node("answer", lambda _: {"final": "blocked, rejected, refused: only words"})
    names = ["triage", "tools", "retriever", "policy_guard", "critic", "escalate_to_human", "answer"]
    for one, other in zip([START, *names], [*names, END]):
        graph.add_edge(one, other)
    return graph.compile(**settings)


def plain(value):
    return value.model_dump() if hasattr(value, "model_dump") else getattr(value, "__dict__", None) or str(value)


def write(name, chunks, expected, lines=False):
    write_text = (FOLDER / f"{name}.json").write_text
    if lines:
        write_text("".join(json.dumps(chunk, default=plain) + "\n" for chunk in chunks))
    else:
        write_text(json.dumps(list(chunks), default=plain))
    (FOLDER / f"{name}.expect").write_text(json.dumps(expected))


def start():
    return {"messages": [HumanMessage("my money back")]}


def streams():
    for mode in ["updates", "debug", "tasks"]:
        write(mode, ensemble().stream(start(), stream_mode=mode), ALL)
    write("lines", ensemble().stream(start(), stream_mode="updates"), ALL, lines=True)
    # A state names no node, a message no output.
    write("values", ensemble().stream(start(), stream_mode="values"), {"tool_call": 1})
    write("messages", ensemble().stream(start(), stream_mode="messages"), {"tool_call": 1})
    modes = ["updates", "debug", "messages", "values", "tasks"]
    write("modes", ensemble().stream(start(), stream_mode=modes), ALL)
    write("subgraphs", ensemble().stream(start(), stream_mode=modes, subgraphs=True), ALL)
    write("dumpd", [dumpd(chunk) for chunk in ensemble().stream(start(), stream_mode="updates")], ALL)
    try:
        write("typed", ensemble().stream(start(), stream_mode=["updates", "messages"], version="v2"), ALL)
    except TypeError as error:
        print(f"typed parts are not known to this version: {error}")


async def events():
    found = [event async for event in ensemble().astream_events(start(), version="v2")]
    write("events", found, ALL)
    try:
        # Its protocol tells messages, states and tools, and no node's output.
        stream = await ensemble().astream_events(start(), version="v3")
        write("protocol", [event async for event in stream], {"tool_call": 1})
    except (TypeError, ValueError, NotImplementedError) as error:
        print(f"the protocol is not known to this version: {error}")


async def run_logs():
    """A run as patches of its log, which is deprecated and still in use, and as the log after each of them."""
    patches = [patch async for patch in ensemble().astream_log(start())]
    write("log_patches", patches, ALL)
    write("log_operations", [operation for patch in patches for operation in patch.ops], ALL)
    logs = [log async for log in ensemble().astream_log(start(), diff=False)]
    write("logs", logs, ALL)
    write("log", logs[-1:], ALL)


def kept():
    """As the platform's client hands them out, and as a thread keeps what happened."""
    parts = [StreamPart("metadata", {"run_id": "1"}, None)]
    parts += [StreamPart("updates", chunk, "1-0") for chunk in ensemble().stream(start(), stream_mode="updates")]
    write("parts", parts, ALL)
    graph = ensemble(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    graph.invoke(start(), config)
    write("history", graph.get_state_history(config), ALL)


def subgraph():
    """A child's documents are its parent's output too: three, not six. And a person is asked once."""
    inner = StateGraph(State)
    inner.add_node("vector_search", lambda _: {"documents": [{"id": f"c{n}", "source": f"https://x/{n}"} for n in range(3)]})
    inner.add_edge(START, "vector_search")
    inner.add_edge("vector_search", END)

    class Outer(State):
        log: Annotated[list, operator.add]

    def ask(_):
        answer = interrupt({"question": "Publish?"})
        return {"log": [answer]}

    outer = StateGraph(Outer)
    outer.add_node("research_retrieval", inner.compile())
    outer.add_node("ask", ask)
    outer.add_edge(START, "research_retrieval")
    outer.add_edge("research_retrieval", "ask")
    outer.add_edge("ask", END)
    graph = outer.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    chunks = list(graph.stream({"log": []}, config, stream_mode="updates", subgraphs=True))
    chunks += graph.stream(Command(resume="reject"), config, stream_mode="updates", subgraphs=True)
    write("child", chunks, {"evidence_cited": 3, "escalation": 1})


def fan_out():
    """One node sends three at once, which all find something and write to their own stream."""
    class Found(TypedDict, total=False):
        documents: Annotated[list, operator.add]

    def search(sent):
        get_stream_writer()({"flagged": True})
        return {"documents": [Document(page_content="x", metadata={"source": sent["topic"]}, id=sent["topic"])]}

    graph = StateGraph(Found)
    graph.add_node("plan", lambda _: None)
    graph.add_node("search_topic", search)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", lambda _: [Send("search_topic", {"topic": topic}) for topic in "abc"], ["search_topic"])
    modes = ["updates", "custom", "tasks", "checkpoints", "values"]
    graph = graph.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    write("fan_out", graph.stream({"documents": []}, config, stream_mode=modes, subgraphs=True), {"evidence_cited": 3})


def asked_at_once():
    """Two nodes ask somebody at the same time; every mode tells it, and `default=str` writes some as Python's repr."""
    class Asked(TypedDict, total=False):
        answers: Annotated[list, operator.add]

    graph = StateGraph(Asked)
    for name in ["finance", "legal"]:
        graph.add_node(name, lambda _, name=name: {"answers": [interrupt({"question": name})]})
        graph.add_edge(START, name)
    graph = graph.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    modes = ["updates", "tasks", "values"]
    chunks = list(graph.stream({"answers": []}, config, stream_mode=modes))
    answers = {asked.id: "reject" for asked in graph.get_state(config).interrupts}
    chunks += graph.stream(Command(resume=answers), config, stream_mode=modes)
    write("asked_at_once", json.loads(json.dumps(chunks, default=str)), {"escalation": 2})


class Scripted(Canned):
    """Says one thing after the other."""

    said: list

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        return ChatResult(generations=[ChatGeneration(message=self.said.pop(0))])


@tool
def transfer_to_billing(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
    """Hand off."""
    told = ToolMessage("transferred", tool_call_id=tool_call_id)
    return Command(goto="billing", graph=Command.PARENT, update={"messages": [told]})


def agents():
    """Agents as subgraphs, one of which hands off to the other: its tool's end does not say which call it was."""
    def calling(name, call):
        return AIMessage(content="", tool_calls=[{"name": name, "args": {"order_id": "1"} if name == "lookup_order" else {}, "id": call}])

    triage = Scripted(said=[calling("transfer_to_billing", "t1")])
    billing = Scripted(said=[calling("lookup_order", "r1"), AIMessage("done")])
    graph = StateGraph(MessagesState)
    graph.add_node("triage", create_agent(triage, [transfer_to_billing], name="triage"))
    graph.add_node("billing", create_agent(billing, [lookup_order], name="billing"))
    graph.add_edge(START, "triage")
    graph.add_edge("billing", END)
    return graph.compile()


async def handed_off():
    found = [event async for event in agents().astream_events(start(), version="v2")]
    write("handed_off_events", found, {"tool_call": 2})
    write("handed_off", agents().stream(start(), stream_mode=["updates", "messages"], subgraphs=True), {"tool_call": 2})
    # Without its subgraphs a graph tells of the first call only what came of it.
    write("handed_off_outside", agents().stream(start()), {"tool_call": 1})


streams()
asyncio.run(events())
asyncio.run(run_logs())
kept()
subgraph()
fan_out()
asked_at_once()
asyncio.run(handed_off())
