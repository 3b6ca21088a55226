"""What scripts/schemathesis knows of the hub beyond its document: who is registered, and which host is its own."""

import os
import string

import schemathesis
from hypothesis import strategies as st

# The agent whose key is used, by its name and its id, and one whose endpoint cannot be reached.
AGENT, AGENT_ID, ENDPOINT_AGENT = os.environ["CHORUS_TEST_AGENTS"].split()
MAY_LEAVE = os.environ.get("CHORUS_TEST_MAY_LEAVE") == "yes"
MEDIA_TYPE = "application/vnd.chorus.envelope+json"

# Endpoints. The name never resolves (RFC 6761): nobody is ever called.
NOWHERE = "host.invalid/"
PATH = st.text(string.ascii_letters + string.digits + "./?%-_")
schemathesis.openapi.format("uri", st.builds(f"https://{NOWHERE}{{}}".format, PATH))


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
        for name in ("connection_string", "endpoint"):
            if path.startswith("/api/v1/agents") and isinstance(case.body.get(name), str):
                case.body[name] = nowhere(case.body[name])
        if path == "/api/v1/agents" and case.body["name"].lower() in (AGENT, ENDPOINT_AGENT):
            case.body["name"] = "somebody"
    if path == "/agents/{id}" and case.method.upper() == "DELETE":
        name = str(case.path_parameters["id"])
        if MAY_LEAVE and case.meta.generation.mode.is_positive:
            case.path_parameters["id"] = AGENT
        elif name.split("@")[0].lower() in (AGENT, ENDPOINT_AGENT) or name == AGENT_ID:
            case.path_parameters["id"] = "somebody"


def registration(body):
    """No document can say which host is ours, how long a name may be with it, and which hosts are of a private network."""
    name, _, host = body["agent_id"].partition("@")
    name = name[:100]
    if name.lower() in (AGENT, ENDPOINT_AGENT) or not name.strip("."):
        name = "somebody"
    body["agent_id"] = name + ("@chorus" if host else "")
    if isinstance(body.get("endpoint"), str):
        body["endpoint"] = nowhere(body["endpoint"])


def nowhere(url):
    """The same address, as long as it was, of a host that is of no private network and nobody's."""
    scheme, rest = url.split("://", 1)
    return f"{scheme}://{NOWHERE}{rest[len(NOWHERE):]}"


def message(body):
    """No document can say who is registered: the sender is, and receivers with an inbox, with an endpoint, or not at all."""
    envelope = body["envelope"]
    if "chorus_version" not in envelope:
        envelope = next(part["data"] for part in envelope["parts"] if MEDIA_TYPE in str(part) and "data" in part)
    envelope["sender_id"] = AGENT
    body["receiver_id"] = [AGENT, ENDPOINT_AGENT, body["receiver_id"]][len(envelope["original_text"]) % 3]
