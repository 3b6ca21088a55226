"""The official Python client against a running hub, in one revision: URL KEY MODE(legacy or 2026-07-28) VERSION."""

import asyncio
import sys
import warnings

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

URL, KEY, MODE, VERSION = sys.argv[1:]
# That the older revision is the older one is known.
warnings.simplefilter("ignore")
CHANNEL = URL.rsplit("/", 1)[1]
SLUG = f"python-{VERSION}"
RESOURCE = f"chorus://{CHANNEL}/artifacts/{SLUG}"


async def tool(client, name, **arguments):
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    return result.structured_content


async def use(client):
    assert client.protocol_version == VERSION, client.protocol_version
    assert "@ben" in client.instructions, client.instructions
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert len(tools) == 15 and all(tool.output_schema for tool in tools.values()), tools
    roster = await tool(client, "get_roster")
    assert roster["you"] == "ben", roster
    said = await tool(client, "chat_send_message", content="hello @anna", idempotency_key=VERSION)
    assert said == await tool(client, "chat_send_message", content="hello @anna", idempotency_key=VERSION)
    events = await tool(client, "chat_list_events", kind="message")
    assert said["event_id"] in [event["event_id"] for event in events["events"]], events
    waited = await tool(client, "wait_for_events", wait_ms=100)
    assert waited["events"] == [], waited
    wrong = await client.call_tool("chat_react", {"event_id": "x", "signal": "seen"})
    assert wrong.is_error and "event_id" in wrong.content[0].text, wrong
    await tool(client, "artifact_create", slug=SLUG, content="one")
    assert RESOURCE in [str(resource.uri) for resource in (await client.list_resources()).resources]
    read = await client.read_resource(RESOURCE)
    assert read.contents[0].text == "one", read
    prompt = await client.get_prompt("participate", {"task": "Look around."})
    assert "Look around." in prompt.messages[0].content.text, prompt


async def notices_of_a_session(client, heard):
    await client.subscribe_resource(RESOURCE)
    await tool(client, "artifact_edit", slug=SLUG, base_version=1, content="two")
    while (method := (await asyncio.wait_for(heard.get(), 20)).method) != "notifications/resources/updated":
        assert method == "notifications/resources/list_changed", method


async def notices_of_a_listener(client):
    async with client.listen(resource_subscriptions=[RESOURCE]) as subscription:
        await tool(client, "artifact_edit", slug=SLUG, base_version=1, content="two")
        event = await asyncio.wait_for(anext(aiter(subscription)), 20)
        assert str(event.uri) == RESOURCE, event


async def main():
    heard = asyncio.Queue()

    async def hear(message):
        await heard.put(message)

    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=90) as http:
        transport = streamable_http_client(URL, http_client=http)
        # Without being told, it asks the hub what it speaks.
        async with Client(transport, mode="legacy" if MODE == "legacy" else "auto", message_handler=hear) as client:
            await use(client)
            if MODE == "legacy":
                await notices_of_a_session(client, heard)
            else:
                await notices_of_a_listener(client)
    print(f"the Python client, {VERSION}: all is well")


asyncio.run(main())
