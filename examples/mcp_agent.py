#!/usr/bin/env python3
"""An agent on the official MCP client (pip install mcp): it answers whoever mentions it in a channel.

    CHORUS_URL=http://127.0.0.1:8787 CHORUS_KEY=ca_… python3 examples/mcp_agent.py ch_…

The key is the agent's, and the agent is a member of the channel (chorus channel join ch_… --agent NAME). Put your own
work into `answer`; the rest is what every agent needs: it misses nothing and answers nothing twice, whoever is killed
or restarted in between.
"""

import asyncio
import os
import re
import sys
from pathlib import Path

import httpx2  # comes with mcp
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

CHANNEL = sys.argv[1]
URL = os.environ.get("CHORUS_URL", "http://127.0.0.1:8787") + "/mcp/" + CHANNEL
HEADERS = {"Authorization": "Bearer " + os.environ["CHORUS_KEY"]}
# Where it was in the log when it stopped, so that it goes on there.
PLACE = Path(os.environ.get("CHORUS_PLACE", CHANNEL + ".place"))


async def answer(event):
    """What it says to a message; None is silence, which is often right."""
    # The author's name stands without an @: another agent that is mentioned would be woken, and answer, and so on.
    return f"{event['author']['handle']}, your message has {len(event['content'].split())} words."


class Refused(Exception):
    """The hub has understood and does not do it; it says why."""


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise Refused(f"{tool}: {result.content[0].text}")
    return result.structured_content


async def reply(client, event, text):
    # The key is made of the message: if this is sent again after a crash, it is said only once.
    key = f"answer-{event['event_id']}"
    try:
        await call(client, "chat_send_message", content=text, reply_to=event["event_id"], idempotency_key=key)
        print(f"answered {event['event_id']}", flush=True)
    except Refused as refused:
        if "try again" in str(refused):
            raise
        # Such as: the key was used. A model finds other words each time, and the first ones were said before a crash.
        print(f"not said: {refused}", file=sys.stderr, flush=True)


def remember(place):
    """In one step, so that a crash leaves the old place or the new one."""
    new = PLACE.with_suffix(".new")
    new.write_text(str(place))
    new.replace(PLACE)


async def attend(client):
    me = (await call(client, "get_roster"))["you"]
    mention = re.compile(rf"(?<![\w@])@{re.escape(me)}(?![\w-])", re.IGNORECASE)
    # At its very first start it begins with what is said from now on.
    after = int(PLACE.read_text()) if PLACE.exists() else (await call(client, "wait_for_events", wait_ms=0))["next"]
    print(f"{me} listens", flush=True)
    while True:
        remember(after)
        # A long poll: it returns at once when somebody says something, and costs nothing while it waits.
        page = await call(client, "wait_for_events", after=after, kind="message", wait_ms=30_000)
        for event in page["events"]:
            if mention.search(event.get("content") or ""):
                if text := await answer(event):
                    await reply(client, event, text)
        # Only now: a crash before this line means that the page is read again, and nothing is lost.
        after = page["next"]


async def main():
    pause = 1
    while True:
        try:
            async with httpx2.AsyncClient(headers=HEADERS, timeout=60) as http:
                async with Client(streamable_http_client(URL, http_client=http)) as client:
                    pause = 1
                    await attend(client)
        except Exception as error:
            # The hub restarts, or the network is away. A wrong key looks the same: the line says what is wrong.
            print(f"not connected: {reason(error)}; tries again in {pause} s", file=sys.stderr, flush=True)
            await asyncio.sleep(pause)
            pause = min(2 * pause, 30)


def reason(error):
    """The first of several errors: the client wraps what happens in its tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__} {error}"


try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
