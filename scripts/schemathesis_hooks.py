"""What scripts/schemathesis knows of the hub beyond its document: who is registered, and which host is its own."""

import os
import string

import schemathesis
from hypothesis import strategies as st

# The agent whose key is used, by its name and its id, and one whose endpoint cannot be reached.
AGENT, AGENT_ID, ENDPOINT_AGENT = os.environ["CHORUS_TEST_AGENTS"].split()
MAY_LEAVE = os.environ.get("CHORUS_TEST_MAY_LEAVE") == "yes"
MEDIA_TYPE = "application/vnd.chorus.envelope+json"

schemathesis.openapi.format(
    "uri", st.builds("https://{}".format, st.text(string.ascii_letters + string.digits + "./?%-_", min_size=1))
)


@schemathesis.serializer("application/x-ndjson")
def ndjson(context, value):
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.operation.path
    if case.meta.generation.mode.is_positive and isinstance(case.body, dict):
        if path in ("/register", "/agents"):
            registration(case.body)
        elif path == "/messages":
            message(case.body)
    if path == "/agents/{id}" and case.method.upper() == "DELETE":
        name = str(case.path_parameters["id"])
        if MAY_LEAVE and case.meta.generation.mode.is_positive:
            case.path_parameters["id"] = AGENT
        elif name.split("@")[0].lower() in (AGENT, ENDPOINT_AGENT) or name == AGENT_ID:
            case.path_parameters["id"] = "somebody"


def registration(body):
    """No document can say which host is ours, and which names lead to a private network."""
    name = body["agent_id"].split("@")[0]
    body["agent_id"] = ("somebody" if name.lower() in (AGENT, ENDPOINT_AGENT) else name) + "@chorus"
    if isinstance(body.get("endpoint"), str):
        # Never resolves (RFC 6761): nobody is ever called. The length stays as it is.
        scheme, rest = body["endpoint"].split("://", 1)
        body["endpoint"] = f"{scheme}://host.invalid/{rest[len('host.invalid/'):].split('#')[0]}"


def message(body):
    """No document can say who is registered: the sender is, and receivers with an inbox, with an endpoint, or not at all."""
    envelope = body["envelope"]
    if "chorus_version" not in envelope:
        envelope = next(part["data"] for part in envelope["parts"] if MEDIA_TYPE in str(part) and "data" in part)
    envelope["sender_id"] = AGENT
    body["receiver_id"] = [AGENT, ENDPOINT_AGENT, body["receiver_id"]][len(envelope["original_text"]) % 3]
