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
KEY = "sk-canned-this-must-never-appear"
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


# Every tool that the API runs or asks for; the last three are none.
TOOLS = [
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": KEY}},
    {"type": "web_search_call", "id": "ws_2", "status": "completed", "action": {"type": "open_page", "url": "https://example.org"}},
    {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["policy"], "results": [{"file_id": "f1", "text": KEY}]},
    {"type": "mcp_call", "id": "mcp_1", "name": "get", "server_label": "crm", "arguments": KEY, "output": None, "error": "denied"},
    {"type": "computer_call", "id": "cu_1", "call_id": "cc_1", "status": "completed", "action": {"type": "wait"},
        "pending_safety_checks": [{"id": "sc_1", "code": "malicious_instructions", "message": KEY}]},
    {"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "code": KEY, "container_id": "c", "outputs": [{"type": "logs", "logs": KEY}]},
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGVsbG8="},
    {"type": "custom_tool_call", "id": "ct_1", "call_id": "cct_1", "name": "sql", "input": KEY},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": KEY}], "encrypted_content": KEY},
    {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "crm", "tools": [{"name": "get", "input_schema": {}}]},
    {"type": "mcp_approval_request", "id": "mcpr_1", "name": "delete", "server_label": "crm", "arguments": "{}"},
]

client = OpenAI(api_key="none", base_url="http://canned", http_client=httpx.Client(transport=httpx.MockTransport(answer)))
response = client.responses.create(model="canned", input="?")
write("object", response.model_dump_json())
write("items", json.dumps([item.model_dump() for item in response.output]))
events = list(client.responses.create(model="canned", input="?", stream=True))
write("stream", json.dumps([event.model_dump() for event in events]))
write("lines", "".join(event.model_dump_json() + "\n" for event in events))
write("raw", "".join(stream()))
RESPONSE["output"] = TOOLS + RESPONSE["output"]
happened = {**HAPPENED, "tool_call": 9}
response = client.responses.create(model="canned", input="?")
write("tools", response.model_dump_json(), happened)
polled = [{**response.to_dict(), "status": status, "output": []} for status in ["queued", "in_progress"]]
write("background", json.dumps([*polled, response.to_dict()]), happened)
batch = {"id": "b", "custom_id": "r", "response": {"status_code": 200, "request_id": "q", "body": response.to_dict()}, "error": None}
write("batch", json.dumps(batch) + "\n", happened)
write("broken-off", json.dumps([event.model_dump() for event in events[:-1]]))
