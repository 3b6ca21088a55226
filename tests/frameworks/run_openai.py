"""Lets the real OpenAI package read canned answers of the Responses API, whole and streamed, and says what happened.

Usage: run_openai.py FOLDER. Writes NAME.json and NAME.expect into it. Nothing goes over the network.
"""

import json
import sys
from pathlib import Path

import httpx
from openai import OpenAI

FOLDER = Path(sys.argv[1])
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "lookup_order", "arguments": "{}", "status": "completed"}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
    {"type": "output_text", "text": "See there.", "logprobs": [], "annotations": [
        {"type": "url_citation", "url": "https://example.org", "title": "There", "start_index": 0, "end_index": 3}]},
    {"type": "refusal", "refusal": "Not that."}]}
RESPONSE = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "canned", "output": [CALL, MESSAGE],
    "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
HAPPENED = {"tool_call": 1, "evidence_cited": 1, "warning": 1}


def stream():
    """As the API streams: everything when it begins, when it is done, and at the end."""
    events = [{"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}}]
    for index, item in enumerate(RESPONSE["output"]):
        for kind in ["response.output_item.added", "response.output_item.done"]:
            events.append({"type": kind, "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": RESPONSE})
    for number, event in enumerate(events):
        yield f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n"


def answer(request):
    if json.loads(request.content).get("stream"):
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, text="".join(stream()))
    return httpx.Response(200, json=RESPONSE)


def write(name, text, expected=HAPPENED):
    (FOLDER / f"{name}.json").write_text(text)
    (FOLDER / f"{name}.expect").write_text(json.dumps(expected))


client = OpenAI(api_key="none", base_url="http://canned", http_client=httpx.Client(transport=httpx.MockTransport(answer)))
response = client.responses.create(model="canned", input="?")
write("object", response.model_dump_json())
write("items", json.dumps([item.model_dump() for item in response.output]))
events = list(client.responses.create(model="canned", input="?", stream=True))
write("stream", json.dumps([event.model_dump() for event in events]))
write("lines", "".join(event.model_dump_json() + "\n" for event in events))
write("raw", "".join(stream()))
write("broken-off", json.dumps([event.model_dump() for event in events[:-1]]))
